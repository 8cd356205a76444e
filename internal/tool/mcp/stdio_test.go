package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/tool"
	"parley/internal/tool/mcp"
	"parley/internal/tool/mcp/mcptest"
)

func TestProgramIsCalled(t *testing.T) {
	b := newBench(t)
	s := b.open(program(t, "one", mcptest.Fine))
	b.wantStatus(s, tool.ServerConnected)
	echo := find(t, s, "echo")
	var o struct {
		ToolName string `json:"tool_name"`
	}
	if text := b.OK(echo, map[string]any{"text": "hi", "n": 12345678901234567}, &o); text != "[The tool 'echo' ran.]\n"+`{"n":12345678901234567,"text":"hi"}` || o.ToolName != "echo" {
		t.Errorf("%q %+v", text, o)
	}
	if text := b.OK(echo, nil, nil); !strings.HasSuffix(text, "{}") {
		t.Errorf("no arguments arrive as %q", text)
	}
	b.Refused(find(t, s, "fail"), nil, "[The tool 'fail' failed.]", "it did not work")
	spec := echo.Spec()
	if spec.Kind != mcp.DefinitionKind || spec.ActionKind != mcp.ActionKind || spec.ObservationKind != mcp.ObservationKind || !spec.NoHands || spec.ReadOnly {
		t.Errorf("spec %+v", spec)
	}
	var def struct {
		Tool struct {
			Name   string         `json:"name"`
			Schema map[string]any `json:"inputSchema"`
		} `json:"mcp_tool"`
	}
	if err := json.Unmarshal(spec.Definition(), &def); err != nil || def.Tool.Name != "echo" || def.Tool.Schema["type"] != "object" {
		t.Errorf("definition %s", spec.Definition())
	}
	if c := echo.Claims(json.RawMessage(`{"data":{}}`)); len(c) != 1 || c[0] != (tool.Claim{Name: "mcp/one", Write: true}) {
		t.Errorf("claims %v", c)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	b := newBench(t)
	echo := find(t, b.open(program(t, "one", mcptest.Fine)), "echo")
	if _, err := echo.Parse(json.RawMessage(`{"text":{"a":1}}`)); err == nil || !strings.Contains(err.Error(), `"text" must be a string`) {
		t.Errorf("%v", err)
	}
	action, err := echo.Parse(json.RawMessage(`{"kind":"x","data":{"a":1}}`))
	if err != nil || string(action) != `{"data":{"data":{"a":1},"kind":"x"},"kind":"MCPToolAction"}` {
		t.Errorf("%s %v", action, err)
	}
	if again, err := echo.Parse(action); err != nil || string(again) != string(action) {
		t.Errorf("again %s %v", again, err)
	}
}

func TestConfigurationIsExpandedAtEachStart(t *testing.T) {
	b := newBench(t)
	b.secrets["TOKEN"] = "t-1"
	config := program(t, "one", mcptest.Fine, "--key=${TOKEN}", "$TOKEN", "${NONE:-else}", "$HOME_OF_NOBODY")
	config.Stdio.Env = map[string]account.Secret{"MCPTEST_A": account.NewSecret("x${TOKEN}y"), "MCPTEST_B": account.NewSecret("$TOKEN")}
	s := b.open(config)
	info := b.info(s)
	if info["args"] != "--key=t-1 t-1 else $HOME_OF_NOBODY" || info["MCPTEST_A"] != "xt-1y" || info["MCPTEST_B"] != "$TOKEN" || info["dir"] != b.Dir {
		t.Errorf("%v", info)
	}
	s.Set([]tool.Server{config})
	if again := b.info(s); again["pid"] != info["pid"] {
		t.Error("the same configuration started the server anew")
	}
	b.secrets["TOKEN"] = "t-2"
	s.Set([]tool.Server{config})
	s.Settle(t.Context())
	if again := b.info(s); again["pid"] == info["pid"] || again["MCPTEST_A"] != "xt-2y" {
		t.Errorf("a changed secret: %v", again)
	}
}

func TestUnknownSecretIsNamed(t *testing.T) {
	b := newBench(t)
	config := program(t, "one", mcptest.Fine)
	config.Stdio.Env = map[string]account.Secret{"MCPTEST_A": account.NewSecret("${GITHUB_TOKEN}")}
	s := b.open(config)
	b.wantStatus(s, tool.ServerFailed, `"GITHUB_TOKEN"`)
	b.secrets["GITHUB_TOKEN"] = "now"
	s.Set([]tool.Server{config})
	b.wantStatus(s, tool.ServerConnected)
}

func TestServersThatDoNotStart(t *testing.T) {
	for name, c := range map[string]struct {
		config  func(tool.Server) tool.Server
		mode    string
		timeout time.Duration
		parts   []string
	}{
		"no such command": {mode: mcptest.Fine, config: func(s tool.Server) tool.Server { s.Stdio.Command = "no-such-command"; return s }, parts: []string{"no-such-command"}},
		"ends at once":    {mode: mcptest.Exit, parts: []string{"exit code 3", "boom: TOKEN is not set"}},
		"hangs":           {mode: mcptest.Hang, timeout: 300 * time.Millisecond, parts: []string{"did not answer in time"}},
		"hangs later":     {mode: mcptest.HangList, timeout: 300 * time.Millisecond, parts: []string{"did not answer in time"}},
		"prints garbage":  {mode: mcptest.Garbage, parts: []string{"standard output", "no MCP messages"}},
		"another version": {mode: mcptest.NoVersion, parts: []string{"unsupported protocol version", "1999-01-01"}},
		"no MCP server": {mode: mcptest.Fine, config: func(s tool.Server) tool.Server {
			s.Stdio.Command, s.Stdio.Args = "sh", []string{"-c", "echo hello; echo usage: x >&2; exit 2"}
			return s
		}, parts: []string{"exit code 2", "usage: x", "hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(cfg *mcp.Config) {
				if c.timeout > 0 {
					cfg.ConnectTimeout = c.timeout
				}
			})
			bad := program(t, "bad", c.mode)
			if c.config != nil {
				bad = c.config(bad)
			}
			s := b.open(bad)
			b.wantStatus(s, tool.ServerFailed, c.parts...)
			if got := names(s); got != nil {
				t.Errorf("tools %v", got)
			}
		})
	}
}

func TestServersThatMisbehaveStayUsable(t *testing.T) {
	for mode, want := range map[string]struct{ state, detail string }{
		mcptest.Logs: {tool.ServerDegraded, "INFO got"}, mcptest.Flood: {tool.ServerDegraded, "floods"}, mcptest.Pings: {tool.ServerDegraded, "floods"},
		mcptest.WrongIDs: {tool.ServerConnected, ""}, mcptest.OldVersion: {tool.ServerConnected, ""}, mcptest.Modern: {tool.ServerConnected, ""}, mcptest.Storm: {tool.ServerConnected, ""},
	} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t)
			s := b.open(program(t, "one", mode))
			for range 5 {
				b.OK(find(t, s, "echo"), map[string]any{"text": "hi"}, nil)
			}
			b.wantStatus(s, want.state, want.detail)
		})
	}
}

func TestOffersBeyondTheBoundsAreLeftOut(t *testing.T) {
	for mode, want := range map[string][]string{
		mcptest.ManyTools: {"9878 tools more than the 128"},
		mcptest.BigSchema: {`"big" (its schema has more than 64 KiB)`, `"text_schema" (its schema is no object)`, `"remote" (its schema cannot be used`},
		mcptest.Twice:     {`"echo" (it is there twice)`},
		mcptest.Circles:   {"in circles"},
	} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t)
			s := b.open(program(t, "one", mode))
			b.wantStatus(s, tool.ServerDegraded, want...)
			if n := len(s.Tools()); n < 6 || n > 128 || s.Status()[0].Tools != n {
				t.Errorf("%d tools, status %+v", n, s.Status()[0])
			}
			b.OK(find(t, s, "echo"), nil, nil)
		})
	}
}

func TestWhatAServerSaysOfItselfLiftsNothing(t *testing.T) {
	b := newBench(t)
	spec := find(t, b.open(program(t, "one", mcptest.Inject)), "evil_tool_with_spaces").Spec()
	if spec.ReadOnly || !spec.Destructive || !spec.OpenWorld || spec.Idempotent || spec.NoConfirm {
		t.Errorf("hints count: %+v", spec)
	}
	if spec.Title != "Harmless thing" || len(spec.Description) > 5000 || strings.ContainsAny(spec.Description, "\x1b\u202e\U000e0041") {
		t.Errorf("title %q, description of %d bytes: %q", spec.Title, len(spec.Description), spec.Description[:60])
	}
}

func TestCrashInACall(t *testing.T) {
	b := newBench(t)
	s := b.open(program(t, "one", mcptest.Die))
	b.Refused(find(t, s, "echo"), nil, `"one" ended while this ran; its outcome is unknown`, "exit code 7")
	b.wantStatus(s, tool.ServerConnected) // again
}

func TestCallsAreBounded(t *testing.T) {
	b := newBench(t, func(cfg *mcp.Config) { cfg.CallTimeout = 50 * time.Millisecond })
	s := b.open(program(t, "one", mcptest.Fine))
	b.Refused(find(t, s, "slow"), nil, "longer than 50ms")
	b = newBench(t)
	s = b.open(program(t, "one", mcptest.HugeLine))
	b.Refused(find(t, s, "echo"), nil, "more than 4 MiB")
	b.wantStatus(s, tool.ServerConnected)
	s = b.open(program(t, "one", mcptest.HugeText))
	b.Env.Mask = func(text string) string { return strings.ReplaceAll(text, "0123456789", "##########") }
	if text := b.OK(find(t, s, "echo"), nil, nil); len(text) > 1<<20+500 || !strings.Contains(text, "more bytes are left out") || strings.Contains(text, "012") {
		t.Errorf("%d bytes", len(text))
	}
}

func TestCancelledCallReturnsAtOnce(t *testing.T) {
	b := newBench(t)
	slow := find(t, b.open(program(t, "one", mcptest.Fine)), "slow")
	action, err := slow.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	shown := make(chan string, 8)
	env := *b.Env
	env.Progress = func(text string) {
		shown <- text
		cancel(stop)
	}
	if _, err := slow.Run(ctx, &env, action); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if text := <-shown; text != "1 of 2: half" {
		t.Errorf("progress %q", text)
	}
}

func TestADeafServerDelaysNobody(t *testing.T) {
	b := newBench(t, func(cfg *mcp.Config) { cfg.ConnectTimeout = 300 * time.Millisecond })
	s := b.open(program(t, "deaf", mcptest.Deaf), program(t, "fine", mcptest.Fine))
	b.OK(find(t, s, "echo"), nil, nil)
	b.wantStatus(s, tool.ServerFailed, "did not answer in time")
}

func TestWhatAServerMayAsk(t *testing.T) {
	b := newBench(t)
	text := b.OK(find(t, b.open(program(t, "one", mcptest.Fine)), "ask"), nil, nil)
	for _, part := range []string{`"uri":"file://` + b.Dir + `"`, "sampling/createMessage: error", "elicitation/create: error"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %s", part, text)
		}
	}
}

func TestResults(t *testing.T) {
	b := newBench(t)
	tl := find(t, b.open(program(t, "one", mcptest.Fine)), "content")
	action, err := tl.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tl.Run(t.Context(), b.Env, action)
	if err != nil || r.IsError {
		t.Fatal(r, err)
	}
	for _, part := range []string{"hello", "is left out: it is none that can be shown", "[Audio, audio/wav, 10 bytes", "[Resource file:///a]\ninside",
		"file:///b, of no known type, 10 bytes", "[Resource file:///c, see, there]", `{"answer":42}`} {
		if !strings.Contains(parts(r), part) {
			t.Errorf("%q is missing in %s", part, parts(r))
		}
	}
	images := 0
	for _, p := range r.Parts {
		if p.ImageURLs != nil && strings.HasPrefix(p.ImageURLs[0], "data:image/png;base64,") {
			images++
		}
	}
	if images != 1 {
		t.Errorf("%d images", images)
	}
}

func TestCloseEndsPrograms(t *testing.T) {
	b := newBench(t)
	s := b.open(program(t, "one", mcptest.Fine), program(t, "two", mcptest.Pings))
	_, raw, _ := strings.Cut(b.OK(find(t, s, "one_info"), nil, nil), "\n")
	var info map[string]string
	if err := json.Unmarshal([]byte(raw), &info); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, st := range s.Status() {
		if st.State != tool.ServerStopped {
			t.Errorf("%+v", st)
		}
	}
	if s.Tools() != nil {
		t.Error("tools after the end")
	}
	until(t, "the program ends", func() bool {
		_, err := os.Stat(filepath.Join("/proc", info["pid"]))
		return err != nil
	})
}
