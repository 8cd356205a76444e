package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// sandboxOf is the id of a conversation's sandbox.
func sandboxOf(s *parleytest.Server, id string) string {
	box, _ := s.Info(id)["sandbox_id"].(string)
	return box
}

// boxInfo is a sandbox as V1 shows it.
type boxInfo struct {
	ID      string  `json:"id"`
	Status  string  `json:"status"`
	Detail  *string `json:"status_detail"`
	Key     *string `json:"session_api_key"`
	Exposed []struct {
		Name string `json:"name"`
		URL  string `json:"url"`
		Port int    `json:"port"`
	} `json:"exposed_urls"`
}

func box(s *parleytest.Server, id string) boxInfo {
	var list []*boxInfo
	if code := s.Call("GET", "/api/v1/sandboxes?id="+id, nil, &list); code != http.StatusOK || len(list) != 1 || list[0] == nil {
		return boxInfo{}
	}
	return *list[0]
}

// needRoot skips what an ordinary user's sandboxes cannot promise.
func needRoot(t *testing.T, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("%s needs a server that is root", what)
	}
}

// A program that is killed for want of memory does not say why: the model and the
// user read it all the same.
func TestALimitIsNoMystery(t *testing.T) {
	t.Parallel()
	needRoot(t, "a memory limit")
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{Env: []string{"PARLEY_SANDBOX_MEMORY=160MiB", "PARLEY_SANDBOX_DISK=64MiB"}})
	s.UseModel(model.URL()+"/v1", nil)
	model.Reply(run("head -c 600m /dev/zero | tail -n 1 | wc -c"), run("head -c 100m /dev/zero >big; ls -s big; rm -f big"), openaitest.Text("I see"))
	id := s.Conversation("use a lot")
	s.WaitStatus(id, "finished")
	all := model.Requests()
	if len(all) < 3 {
		t.Fatalf("%d requests", len(all))
	}
	if got := string(all[1].Raw); !strings.Contains(got, "reached its memory limit") {
		t.Errorf("the model was not told of the memory:\n%s", got)
	}
	if got := string(all[2].Raw); !strings.Contains(got, "No space left on device") {
		t.Errorf("the disk is not limited:\n%s", got)
	}
	incidents := fmt.Sprint(s.Events(id))
	if !strings.Contains(incidents, "out_of_memory") {
		t.Error("no event tells of the memory")
	}
	var usage map[string]any
	if code := s.Call("GET", "/api/v1/sandboxes/"+sandboxOf(s, id)+"/usage", nil, &usage); code != http.StatusOK || usage["oom_kills"] == nil {
		t.Errorf("usage: %d %v", code, usage)
	}
}

const netSpecs = `[{id: listed, network: ["127.0.0.1:%[1]s"]}, {id: open}, {id: offline, network: none}]`

func TestTemplatesAndTheNetworkLog(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "served") }))
	defer site.Close()
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{Env: []string{"PARLEY_SANDBOX_SPECS=" + fmt.Sprintf(netSpecs, port)}})
	s.UseModel(model.URL()+"/v1", nil)
	fetch := fmt.Sprintf(`(exec 3<>/dev/tcp/10.0.2.2/%[1]s && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3 | tail -n 1); (exec 3<>/dev/tcp/169.254.169.254/80) 2>&1 | tail -n 1`, port)
	seen := map[string]string{}
	for _, spec := range []string{"listed", "open", "offline"} {
		model.Reply(run(fetch), openaitest.Text("done"))
		id, err := s.StartWith(map[string]any{"sandbox_spec_id": spec,
			"initial_message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "fetch"}}}})
		if err != nil {
			t.Fatal(err)
		}
		s.WaitStatus(id, "finished")
		seen[spec] = lastRequest(model)
		var log struct {
			Items []struct {
				Address, Verdict, Protocol string
				Port                       int
				Open                       bool
				Received                   int64 `json:"bytes_received"`
			} `json:"items"`
		}
		if code := s.Call("GET", "/api/v1/app-conversations/"+id+"/network", nil, &log); code != http.StatusOK {
			t.Fatalf("network log of %s: %d", spec, code)
		}
		verdicts := map[string]string{}
		for _, c := range log.Items {
			verdicts[fmt.Sprint(c.Address, ":", c.Port)] = c.Verdict
			if c.Verdict == "allowed" && !c.Open && c.Received == 0 {
				t.Errorf("%s: nothing was received: %+v", spec, c)
			}
		}
		local := verdicts["127.0.0.1:"+port]
		if want := map[string]string{"listed": "allowed", "open": "refused"}[spec]; local != want {
			t.Errorf("%s: the machine's own port is %q, want %q; %v", spec, local, want, verdicts)
		}
		if want := map[string]string{"listed": "refused", "open": "refused"}[spec]; verdicts["169.254.169.254:80"] != want {
			t.Errorf("%s: the metadata address is %q; %v", spec, verdicts["169.254.169.254:80"], verdicts)
		}
	}
	if !strings.Contains(seen["listed"], "served") || strings.Contains(seen["open"], "served") || strings.Contains(seen["offline"], "served") {
		t.Errorf("reached by: %v", seen)
	}
	var specs struct{ Items []struct{ ID string } }
	if s.Call("GET", "/api/v1/sandbox-specs/search", nil, &specs); len(specs.Items) != 3 || specs.Items[0].ID != "listed" {
		t.Errorf("templates: %+v", specs)
	}
	if code := s.Call("POST", "/api/v1/sandboxes?sandbox_spec_id=none", nil, nil); code != http.StatusNotFound {
		t.Errorf("an unknown template: %d", code)
	}
}

// A conversation's own policy stands within that of its template.
func TestAConversationsOwnNetworkPolicy(t *testing.T) {
	t.Parallel()
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{Env: []string{"PARLEY_SANDBOX_NETWORK=none"}})
	s.UseModel(model.URL()+"/v1", nil)
	model.Reply(run(`(exec 3<>/dev/tcp/192.0.2.1/80) 2>&1 | tail -n 1`), openaitest.Text("done"))
	id, err := s.StartWith(map[string]any{"sandbox_network": map[string]any{"mode": "open"},
		"initial_message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "try"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.WaitStatus(id, "finished")
	if got := lastRequest(model); !strings.Contains(got, "unreachable") {
		t.Errorf("a request opened what its template closes:\n%s", got)
	}
	if code := s.Call("POST", "/api/v1/app-conversations", map[string]any{"sandbox_network": map[string]any{"mode": "everything"}}, nil); code != http.StatusUnprocessableEntity && code != http.StatusBadRequest {
		t.Errorf("an unknown mode: %d", code)
	}
}

func TestForkCopiesTheSandbox(t *testing.T) {
	t.Parallel()
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{})
	s.UseModel(model.URL()+"/v1", nil)
	model.Reply(run("echo one >f; mkdir -p ~/kept; echo home >~/kept/h"), openaitest.Text("made"))
	id := s.Conversation("make it")
	s.WaitStatus(id, "finished")
	var fork struct {
		ID      string `json:"id"`
		Sandbox string `json:"sandbox_id"`
	}
	if code := s.Call("POST", "/api/v1/app-conversations/"+id+"/fork", map[string]any{"title": "another way"}, &fork); code != http.StatusCreated {
		t.Fatalf("fork: %d", code)
	}
	if fork.Sandbox == sandboxOf(s, id) || fork.Sandbox == "" {
		t.Fatalf("the fork's sandbox is %q", fork.Sandbox)
	}
	say := func(id, command, want string) {
		t.Helper()
		model.Reply(run(command), openaitest.Text("done"))
		if code := s.Send(id, "go on"); code != http.StatusOK {
			t.Fatalf("send: %d", code)
		}
		s.Eventually("an answer", func() bool { return strings.Contains(lastRequest(model), want) })
		s.WaitStatus(id, "finished")
	}
	s.Eventually("the fork's sandbox", func() bool { return box(s, fork.Sandbox).Status == "RUNNING" })
	say(id, "echo two >f; echo source-$(cat f)", "source-two")
	say(fork.ID, "echo fork-$(cat f)-$(cat ~/kept/h); echo three >f", "fork-one-home")
	say(id, "echo again-$(cat f)", "again-two")
	s.Kill() // both are adopted
	s.Again()
	say(fork.ID, "echo adopted-$(cat f)", "adopted-three")
}

func TestAPortOfTheSandboxIsShown(t *testing.T) {
	t.Parallel()
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{})
	s.UseModel(model.URL()+"/v1", nil)
	model.Reply(run("echo hello from inside >index.html; nohup python3 -m http.server 8765 >/dev/null 2>&1 & sleep 1; echo started"), openaitest.Text("done"))
	id := s.Conversation("serve")
	s.WaitStatus(id, "finished")
	if strings.Contains(lastRequest(model), "not found") {
		t.Skip("there is no python3 in the sandbox")
	}
	boxID, preview := sandboxOf(s, id), ""
	s.Eventually("the port among the URLs", func() bool {
		for _, e := range box(s, boxID).Exposed {
			if e.Port == 8765 && strings.HasPrefix(e.Name, "WORKER_") {
				preview = e.URL
			}
		}
		return preview != ""
	})
	get := func(key string) (int, string) {
		code, body, err := s.Raw(t.Context(), key, "GET", strings.TrimPrefix(preview, s.URL)+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return code, string(body)
	}
	if code, body := get(*box(s, boxID).Key); code != http.StatusOK || !strings.Contains(body, "hello from inside") {
		t.Errorf("with the sandbox's key: %d %s", code, body)
	}
	if code, body := get("wrong-key-of-nobody"); code != http.StatusUnauthorized || strings.Contains(body, "hello") {
		t.Errorf("with a wrong key: %d %s", code, body)
	}
	if code := s.Call("POST", "/api/v1/sandboxes/"+boxID+"/pause", nil, nil); code != http.StatusOK {
		t.Fatalf("pause: %d", code)
	}
	if code, _ := get(parleytest.Key); code != http.StatusConflict {
		t.Errorf("a paused sandbox: %d", code)
	}
	if got := box(s, boxID).Status; got != "PAUSED" {
		t.Errorf("looking at it woke it: %s", got)
	}
}

// Where all places are taken by work, a new conversation waits, says so, and goes
// on when one becomes free.
func TestWaitingForAPlace(t *testing.T) {
	t.Parallel()
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{Env: []string{"PARLEY_MAX_SANDBOXES=1"}})
	s.UseModel(model.URL()+"/v1", nil)
	model.Reply(run("while [ ! -e go ]; do sleep 0.05; done; echo released"), openaitest.Text("done"))
	first := s.Conversation("work")
	s.Eventually("the work", func() bool { return len(s.Events(first)) > 2 && s.Info(first)["execution_status"] == "running" })
	var second boxInfo
	if code := s.Call("POST", "/api/v1/sandboxes", nil, &second); code != http.StatusOK {
		t.Fatalf("start: %d", code)
	}
	s.Eventually("the wait", func() bool {
		b := box(s, second.ID)
		return b.Status == "STARTING" && b.Detail != nil && strings.Contains(*b.Detail, "Waiting for a free place")
	})
	_, key := s.AgentURL(first)
	if code := s.CallAs(key, "POST", "/api/conversations/"+first+"/interrupt", nil, nil); code >= 300 {
		t.Fatalf("interrupt: %d", code)
	}
	s.Eventually("its turn", func() bool { return box(s, second.ID).Status == "RUNNING" })
	if got := box(s, sandboxOf(s, first)).Status; got != "PAUSED" {
		t.Errorf("the first one is %s", got)
	}
}

// The tiers that CI has beside local: a whole conversation in each.
func TestOtherBackends(t *testing.T) {
	for name, env := range map[string][]string{
		"docker": {"PARLEY_SANDBOX_IMAGE=" + os.Getenv("PARLEY_TEST_IMAGE"), "DOCKER_HOST=" + os.Getenv("DOCKER_HOST")},
		"gvisor": {"PARLEY_RUNSC=" + os.Getenv("PARLEY_TEST_RUNSC")},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(env[0], "=") {
				t.Skipf("there is no %s here: see .ci/run", name)
			}
			model := openaitest.New(t)
			s := parleytest.Start(t, parleytest.Options{Sandbox: name, Env: env})
			s.UseModel(model.URL()+"/v1", nil)
			model.Reply(run("echo in-$(pwd) >f; cat f; id -u"), openaitest.Text("done"))
			id := s.Conversation("look")
			s.WaitStatus(id, "finished")
			if got := lastRequest(model); !strings.Contains(got, "in-/workspace/project") {
				t.Errorf("inside:\n%s", got)
			}
			s.Kill()
			s.Again()
			model.Reply(run("echo still-$(cat f)"), openaitest.Text("done"))
			if code := s.Send(id, "again"); code != http.StatusOK {
				t.Fatalf("send: %d", code)
			}
			s.Eventually("the adopted sandbox", func() bool { return strings.Contains(lastRequest(model), "still-in-/workspace/project") })
			s.WaitStatus(id, "finished")
			if code := s.Call("DELETE", "/api/v1/app-conversations/"+id, nil, nil); code != http.StatusOK {
				t.Errorf("delete: %d", code)
			}
		})
	}
}
