package agentserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/tool"
)

// States of a login, as httpkit.LoginStatus has them.
const (
	loginDone   = "done"
	loginFailed = "failed"
)

// Kinds of failures (agent protocol 1.7).
const (
	failedTimeout    = "timeout"
	failedConnection = "connection"
	failedUnknown    = "unknown"
)

// serverTest asks how an MCP server is that is not stored yet.
type serverTest struct {
	Name    string          `json:"name"`
	Server  json.RawMessage `json:"server"`
	Timeout float64         `json:"timeout"` // seconds
	Call    *struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"tool_call"`
}

// server reads the server. One that is disabled is tested all the same.
func (q *serverTest) server(stored *account.MCPConfig) (tool.Server, error) {
	raw, err := json.Marshal(map[string]json.RawMessage{q.Name: q.Server})
	if err != nil {
		return tool.Server{}, err
	}
	config, err := serversOf(raw, stored, "body", "server")
	if err != nil {
		return tool.Server{}, err
	}
	for _, list := range [][]account.MCPHTTPServer{config.SSE, config.SHTTP} {
		for i := range list {
			list[i].Disabled = false
		}
	}
	for i := range config.Stdio {
		config.Stdio[i].Disabled = false
	}
	servers := engine.Servers(config)
	if len(servers) != 1 { // a list of servers, which the settings take
		return tool.Server{}, httpkit.BadField("this is not one server", nil, "body", "server")
	}
	return servers[0], nil
}

// readTest reads the body of a test and its server.
func (s *Server) readTest(r *httpkit.Request) (serverTest, tool.Server, error) {
	var q serverTest
	if err := r.Body(&q); err != nil {
		return q, tool.Server{}, err
	}
	if q.Name = strings.TrimSpace(q.Name); q.Name == "" {
		q.Name = "test-server"
	}
	known, err := s.surroundings(r.Context(), scopeOf(r.Principal))
	if err != nil {
		return q, tool.Server{}, err
	}
	server, err := q.server(known.servers)
	return q, server, err
}

type testSuccess struct {
	OK     bool        `json:"ok"`
	Tools  []string    `json:"tools"`
	Result *callResult `json:"tool_result,omitempty"`
}

type callResult struct {
	IsError bool   `json:"is_error"`
	Text    string `json:"text"`
}

type testFailure struct {
	OK    bool   `json:"ok"`
	Error string `json:"error"`
	Kind  string `json:"error_kind"`
}

// testServer connects to a server as conversations do. That it does not work is an
// answer, and no error of this API.
func (s *Server) testServer(w http.ResponseWriter, r *httpkit.Request) error {
	q, server, err := s.readTest(r)
	if err != nil {
		return err
	}
	var call *tool.ServerCall
	if q.Call != nil {
		call = &tool.ServerCall{Name: q.Call.Name, Arguments: q.Call.Arguments}
	}
	sc := scopeOf(r.Principal)
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(q.Timeout*float64(time.Second)))
	defer cancel()
	report, err := s.cfg.Engine.TestServer(ctx, sc.owner, sc.sandbox, server, call)
	switch {
	case err != nil && ctx.Err() != nil && r.Context().Err() == nil:
		return httpkit.JSON(w, http.StatusOK, testFailure{Error: "The server was not tested in time.", Kind: failedTimeout})
	case err != nil:
		return err
	case !report.OK:
		return httpkit.JSON(w, http.StatusOK, testFailure{Error: report.Error, Kind: report.ErrorKind})
	}
	answer := testSuccess{OK: true, Tools: make([]string, len(report.Tools)), Result: resultOf(report.Result)}
	for i, t := range report.Tools {
		answer.Tools[i] = t.Name
	}
	return httpkit.JSON(w, http.StatusOK, answer)
}

// resultOf is what a call came to, its text only; nil = there was none.
func resultOf(raw json.RawMessage) *callResult {
	var result struct {
		IsError bool `json:"isError"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &result) != nil {
		return nil
	}
	var parts []content.Part
	for _, c := range result.Content {
		if c.Type == "text" {
			parts = append(parts, content.Text(c.Text))
		}
	}
	return &callResult{result.IsError, content.JoinText(parts)}
}

// login is how a login is. The tokens stay in this server.
type login struct {
	OK     bool    `json:"ok"`
	Status string  `json:"status,omitempty"`
	Job    string  `json:"job_id,omitempty"`
	URL    string  `json:"authorization_url,omitempty"`
	Error  *string `json:"error,omitempty"`
	Kind   string  `json:"error_kind,omitempty"`
}

// startLogin begins a login. That it does not begin because of the server is an
// answer, as in testServer.
func (s *Server) startLogin(w http.ResponseWriter, r *httpkit.Request) error {
	if s.cfg.OAuth == nil {
		return httpkit.NoLogins()
	}
	_, server, err := s.readTest(r)
	if err != nil {
		return err
	}
	if server.HTTP == nil || server.HTTP.Auth == nil || server.HTTP.Auth.Strategy != account.MCPAuthOAuth {
		return fault.New(fault.Invalid, "no_oauth", "A login needs a server with auth.strategy oauth2.")
	}
	job, err := s.cfg.OAuth.Start(r.Context(), scopeOf(r.Principal).owner, server.HTTP)
	switch kind := fault.KindOf(err); {
	case err == nil:
		return httpkit.JSON(w, http.StatusOK, login{OK: true, Job: job.ID, URL: job.AuthorizationURL})
	case kind == fault.Timeout:
		return writeFailedLogin(w, err, failedTimeout)
	case kind == fault.Unavailable:
		return writeFailedLogin(w, err, failedConnection)
	case kind == fault.Invalid:
		return writeFailedLogin(w, err, failedUnknown)
	}
	return err
}

func writeFailedLogin(w http.ResponseWriter, err error, kind string) error {
	text := fault.PublicText(err)
	return httpkit.JSON(w, http.StatusOK, login{Error: &text, Kind: kind})
}

func (s *Server) loginStatus(w http.ResponseWriter, r *httpkit.Request) error {
	if s.cfg.OAuth == nil {
		return httpkit.NoLogins()
	}
	now, err := s.statusOf(r)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, now)
}

func (s *Server) statusOf(r *httpkit.Request) (login, error) {
	job := r.PathValue("job_id")
	now, err := s.cfg.OAuth.Status(scopeOf(r.Principal).owner, job)
	switch {
	case err != nil:
		return login{}, err
	case now.State == loginDone:
		return login{OK: true, Status: "succeeded", Job: job}, nil
	case now.State == loginFailed:
		return login{Status: "failed", Job: job, Error: &now.Error, Kind: failedUnknown}, nil
	}
	return login{OK: true, Status: "authorizing", Job: job}, nil
}

// finishLogin takes the address that the user was sent back to. Nothing is fetched
// from there; only what it says counts.
func (s *Server) finishLogin(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		URL string `json:"callback_url"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	if s.cfg.OAuth == nil {
		return httpkit.NoLogins()
	}
	address, err := url.Parse(q.URL)
	if err != nil || address.RawQuery == "" {
		return httpkit.BadField("this is not an address that a login comes back to", nil, "body", "callback_url")
	}
	wrong := s.cfg.OAuth.Callback(r.Context(), scopeOf(r.Principal).owner, r.PathValue("job_id"), address.Query())
	if fault.Is(wrong, fault.Conflict) { // it is over
		return wrong
	}
	now, err := s.statusOf(r)
	if err != nil {
		return err
	}
	if wrong != nil && now.Status != loginFailed {
		return wrong
	}
	return httpkit.JSON(w, http.StatusOK, now)
}
