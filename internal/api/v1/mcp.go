package v1

import (
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/tool"
)

// serverQuery names an MCP server: the one in the request, or else the one of the
// settings with that name.
type serverQuery struct {
	Name   string          `json:"name"`
	Server json.RawMessage `json:"server"`
}

// find returns the server. Secrets that are null or the mask are those of the settings'
// server of that name. NotFound if the request has none and the settings neither.
func (q *serverQuery) find(s *account.Settings) (tool.Server, error) {
	servers := s.MCP
	if len(q.Server) > 0 && string(q.Server) != "null" {
		named, err := json.Marshal(map[string]json.RawMessage{q.Name: q.Server})
		if err != nil {
			return tool.Server{}, err
		}
		var fields []fault.Field
		if servers, fields = account.ParseMCPServers(named, s.MCP, "body", "server"); len(fields) > 0 {
			return tool.Server{}, account.Invalid(fields)
		}
	}
	found := tool.Server{From: "settings"}
	servers.Each(func(name string, http *account.MCPHTTPServer, sse bool, stdio *account.MCPStdioServer) {
		if name == q.Name {
			found.Name, found.HTTP, found.SSE, found.Stdio = name, http, sse, stdio
		}
	})
	if found.Name == "" {
		return found, fault.New(fault.NotFound, "mcp_server_not_found", "The settings have no MCP server %.100q.", q.Name).
			WithHint("Send the server to test along, or store it in agent_settings_diff.mcp_config of the settings.")
	}
	return found, nil
}

// mcpTest is how the test of a server went (agent protocol 1.7).
type mcpTest struct {
	OK         bool              `json:"ok"`
	Tools      []tool.ServerTool `json:"tools,omitzero"`
	ToolResult json.RawMessage   `json:"tool_result,omitempty"`
	Error      string            `json:"error,omitempty"`
	ErrorKind  string            `json:"error_kind,omitempty"`
}

// testServer answers 200 however the test went.
func (h *handlers) testServer(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		serverQuery
		SandboxID *string `json:"sandbox_id"`
		Timeout   float64 `json:"timeout"` // seconds
		Call      *struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"tool_call"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	server, err := q.find(s)
	if err != nil {
		return err
	}
	var call *tool.ServerCall
	if q.Call != nil {
		call = &tool.ServerCall{Name: q.Call.Name, Arguments: q.Call.Arguments}
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(q.Timeout*float64(time.Second)))
	defer cancel()
	report, err := h.Engine.TestServer(ctx, r.Principal.UserID, orEmpty(q.SandboxID), server, call)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, mcpTest{report.OK, report.Tools, report.Result, report.Error, report.ErrorKind})
}

// mcpLogin is a login that waits for its user.
type mcpLogin struct {
	JobID            string `json:"job_id"`
	AuthorizationURL string `json:"authorization_url"`
	ExpiresAt        string `json:"expires_at"`
}

func (h *handlers) startLogin(w http.ResponseWriter, r *httpkit.Request) error {
	if h.OAuth == nil {
		return httpkit.NoLogins()
	}
	var q serverQuery
	if err := r.Body(&q); err != nil {
		return err
	}
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	server, err := q.find(s)
	if err != nil {
		return err
	}
	if server.HTTP == nil {
		return fault.New(fault.Invalid, "mcp_login_local", "The MCP server %s is a program: there is nothing to log in at.", server.Name)
	}
	job, err := h.OAuth.Start(r.Context(), r.Principal.UserID, server.HTTP)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, mcpLogin{job.ID, job.AuthorizationURL, httpkit.FormatTime(job.ExpiresAt)})
}

func (h *handlers) loginStatus(w http.ResponseWriter, r *httpkit.Request) error {
	if h.OAuth == nil {
		return httpkit.NoLogins()
	}
	status, err := h.OAuth.Status(r.Principal.UserID, r.PathValue("job_id"))
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, struct {
		Status string  `json:"status"`
		Error  *string `json:"error"`
	}{status.State, orNull(status.Error)})
}

// callbackPolicy lets the page do nothing but look as it does.
const callbackPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

var callbackPage = template.Must(template.New("callback").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Parley</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}</style></head>
<body><h1>{{.Title}}</h1><p>{{.Text}}</p><p>You can close this window.</p></body></html>
`))

// finishLogin is where a browser is sent back to. It has no key: that the state cannot
// be guessed is what counts. It is the one GET that changes something, which the
// protocol of the login has it be; who only looks at an address (HEAD) changes nothing.
func (h *handlers) finishLogin(w http.ResponseWriter, r *httpkit.Request) error {
	switch {
	case h.OAuth == nil:
		return httpkit.NoLogins()
	case r.Method == http.MethodHead:
		return nil
	}
	err := h.OAuth.CallbackByState(r.Context(), r.URL.Query())
	status, page := http.StatusOK, struct{ Title, Text string }{"Logged in", "Parley can use the MCP server now."}
	if err != nil {
		p := httpkit.Describe(err)
		status, page.Title, page.Text = p.Status, "The login failed", p.Text
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", callbackPolicy)
	w.Header().Set("Referrer-Policy", "no-referrer") // the address holds the code
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return callbackPage.Execute(w, page)
}
