package agentserver

import (
	"context"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandboxd"
	"parley/internal/store"
	"parley/internal/tool"
)

const (
	editorTerminal = "parley-editor"
	editorStart    = 30 * time.Second // that an editor may take until it listens
	editorPoll     = 50 * time.Millisecond
	openVSCode     = "openvscode-server"
)

// editor returns the sandbox with the program in it that serves a code editor, ""
// if there is none.
func (v *visit) editor(ctx context.Context) (*store.Sandbox, string) {
	s := v.server
	found, err := s.cfg.Sandboxes.Batch(ctx, v.owner, []string{v.sandboxID})
	if err != nil || found[0] == nil {
		return nil, ""
	}
	return found[0], s.cfg.Previews.Exposed(ctx, found)[0].Editor
}

// basePath is the path that an editor that needs one is told to serve below: the
// preview's below the server's own paths.
func (v *visit) basePath(r *http.Request) string {
	return strings.TrimRight(pathOf(httpkit.PreviewURL(v.server.cfg.Previews.URLs.Base(r), v.sandboxID, v.port)), "/")
}

// editorBase is where the sandbox's editor serves, "" at the root.
func (v *visit) editorBase(r *http.Request) string {
	if _, program := v.editor(r.Context()); path.Base(program) == openVSCode {
		return v.basePath(r)
	}
	return ""
}

// dialEditor starts the sandbox's editor where nothing listens yet, and connects
// when it does. closed is what a sandbox without an editor answers.
func (v *visit) dialEditor(ctx context.Context, closed error) (net.Conn, error) {
	box, program := v.editor(ctx)
	if fault.CodeOf(closed) != sandboxd.CodePortClosed || program == "" {
		return nil, closed
	}
	if _, err := v.hands.OpenTerminal(ctx, tool.TerminalRequest{ID: editorTerminal, Argv: editorCommand(program, v.based),
		Dir: box.WorkingDir, Rows: 24, Cols: 80}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, editorStart)
	defer cancel()
	again := time.NewTicker(editorPoll)
	defer again.Stop()
	for {
		conn, err := v.hands.DialPort(ctx, v.port)
		if err == nil || fault.CodeOf(err) != sandboxd.CodePortClosed {
			return conn, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, fault.New(fault.Timeout, "editor_not_started", "%s was started and does not listen.", path.Base(program)).
				WithHint("Its output is in the sandbox's terminal %s.", editorTerminal)
		}
	}
}

// editorCommand starts an editor on loopback. It asks for no password: whoever
// comes to it has shown a key here.
func editorCommand(program, base string) []string {
	port := strconv.Itoa(fleet.EditorPort)
	if path.Base(program) == openVSCode {
		return []string{program, "--host", "127.0.0.1", "--port", port, "--without-connection-token", "--server-base-path", base}
	}
	return []string{program, "--bind-addr", "127.0.0.1:" + port, "--auth", "none", "--disable-telemetry", "--disable-update-check"}
}
