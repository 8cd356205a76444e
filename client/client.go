// Package parley is a client of a Parley server: it starts conversations with an
// agent, follows what happens in them across lost connections and restarts of the
// server, answers what the agent asks, and moves files in and out.
//
//	c := parley.New("http://127.0.0.1:3000", key)
//	conv, err := c.Start(ctx, parley.StartRequest{Message: "What is in this directory?"})
//	for event, err := range c.Events(ctx, conv.ID, parley.FromStart) {
//		...
//	}
//
// It uses the standard library only. A Client may be used by several goroutines.
package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 64 << 20

// Client talks to one server with one user's key.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a client of the server at base, for example "http://127.0.0.1:3000",
// with a user's API key.
func New(base, key string) *Client {
	// The key must not follow a redirect to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimRight(base, "/"), key: key, http: &http.Client{CheckRedirect: stay}}
}

// Error is an answer of the server that says no.
type Error struct {
	Status  int    // of HTTP
	Code    string // stable; "" if the answer has none
	Message string // what happened and what to do
}

func (e *Error) Error() string { return fmt.Sprintf("parley: %d: %s", e.Status, e.Message) }

// IsNotFound reports whether an error says that something is not there, or belongs
// to somebody else.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// target is where a request goes, and with which key.
type target struct{ base, key string }

func (c *Client) server() target { return target{c.base, c.key} }

// call makes a request with a JSON body (nil = none) and decodes the answer into out
// (nil = not).
func (c *Client) call(ctx context.Context, to target, method, path string, body, out any) error {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("parley: encode the request: %w", err)
		}
		reader = bytes.NewReader(raw)
	}
	raw, err := c.send(ctx, to, method, path, "application/json", reader)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("parley: %s %s: no answer of a Parley server: %w", method, path, err)
	}
	return nil
}

// send makes a request and reads the answer.
func (c *Client) send(ctx context.Context, to target, method, path, contentType string, body io.Reader) ([]byte, error) {
	resp, err := c.open(ctx, to, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("parley: %s %s: %w", method, path, err)
	}
	if len(raw) > maxAnswer {
		return nil, fmt.Errorf("parley: %s %s: the answer is larger than %d bytes", method, path, maxAnswer)
	}
	return raw, nil
}

// open makes a request; an answer that says no is an Error. The caller closes the
// body.
func (c *Client) open(ctx context.Context, to target, method, path, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("parley: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if to.key != "" {
		req.Header.Set("X-Session-API-Key", to.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("parley: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what was read says enough
	return nil, refusal(resp, raw)
}

// refusal reads an answer that says no.
func refusal(resp *http.Response, raw []byte) *Error {
	e := &Error{Status: resp.StatusCode, Message: http.StatusText(resp.StatusCode)}
	var body struct {
		Detail    json.RawMessage `json:"detail"`
		Code      string          `json:"code"`
		Exception string          `json:"exception"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return e
	}
	e.Code = body.Code
	var text string
	var fields []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	switch {
	case json.Unmarshal(body.Detail, &text) == nil && text != "":
		e.Message = text
	case json.Unmarshal(body.Detail, &fields) == nil && len(fields) > 0:
		e.Message = strings.Trim(fmt.Sprint(fields[0].Loc...), "[]") + ": " + fields[0].Msg
	}
	return e
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func query(name, value string) string { return "?" + url.Values{name: {value}}.Encode() }
