package sandboxd

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"parley/internal/tool"
)

// Exec runs a program to its end. Its time-out, or the end of ctx, terminates all
// of its session: TERM, 1 s, KILL. Standard input is bounded by MaxStdinBytes,
// and MaxOutput by MaxOutputBytes (more is cut to it). Output that others write
// after the program's end is awaited for 250 ms at most.
func (c *Client) Exec(ctx context.Context, req tool.ExecRequest) (tool.ExecResult, error) {
	var result tool.ExecResult
	if len(req.Stdin) > MaxStdinBytes {
		return result, bodyTooLarge(MaxStdinBytes)
	}
	body, err := jsonBody(req)
	if err != nil {
		return result, err
	}
	err = c.json(ctx, call{method: http.MethodPost, path: "/exec", body: body}, &result)
	return result, err
}

// OpenTerminal starts a program (none: the sandbox's shell) on a terminal of
// Rows x Cols (0: 24 x 80), or returns the running one of that id as it is.
func (c *Client) OpenTerminal(ctx context.Context, req tool.TerminalRequest) (tool.TerminalInfo, error) {
	var info tool.TerminalInfo
	path, err := terminalPath(req.ID, "")
	if err != nil {
		return info, err
	}
	body, err := jsonBody(req)
	if err != nil {
		return info, err
	}
	err = c.json(ctx, call{method: http.MethodPut, path: path, body: body}, &info)
	return info, err
}

// WriteTerminal types bytes, at most MaxInputBytes. CodeTerminalBusy: the program
// did not read them in time (10 s), some may have been taken.
func (c *Client) WriteTerminal(ctx context.Context, id string, data []byte) error {
	path, err := terminalPath(id, "/input")
	if err != nil {
		return err
	}
	if len(data) > MaxInputBytes {
		return bodyTooLarge(MaxInputBytes)
	}
	return c.discard(ctx, call{method: http.MethodPost, path: path, body: bytes.NewReader(data)})
}

// ReadTerminal returns output from req.Offset on, at most req.Max bytes (2 MiB at
// most), as soon as: there is any, without Until; the output contains Until; there
// are Max bytes; the program has ended; or Wait (10 min at most) is over. The
// match may begin before Offset if it ends after it, so that who reads on from
// where the last piece ended does not miss one that lies across. CodeOffsetAhead:
// the terminal was started anew since. With Hold the program waits for the reader
// before it has printed half a buffer more than was read: up to 2 s after this read,
// or until one without Hold.
func (c *Client) ReadTerminal(ctx context.Context, id string, req tool.TerminalRead) (tool.TerminalOutput, error) {
	path, err := terminalPath(id, "/output")
	if err != nil {
		return tool.TerminalOutput{}, err
	}
	query := url.Values{"offset": {decimal(req.Offset)}, "wait": {decimal(int64(max(req.Wait, 0)))}, "max": {decimal(int64(req.Max))}}
	if req.Until != "" {
		query.Set("until", req.Until)
	}
	if req.Hold {
		query.Set("hold", "true")
	}
	data, header, err := c.raw(ctx, call{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return tool.TerminalOutput{}, err
	}
	return parseOutput(data, header)
}

func parseOutput(data []byte, header http.Header) (out tool.TerminalOutput, err error) {
	out.Data = data
	if out.Offset, err = strconv.ParseInt(header.Get(headerOffset), 10, 64); err != nil {
		return out, badAnswer(err)
	}
	if out.End, err = strconv.ParseInt(header.Get(headerEnd), 10, 64); err != nil {
		return out, badAnswer(err)
	}
	if code := header.Get(headerExited); code != "" {
		out.Exited = true
		if out.Code, err = strconv.Atoi(code); err != nil {
			return out, badAnswer(err)
		}
	}
	return out, nil
}

// SignalTerminal sends signal (1 to 64) to the foreground process group.
func (c *Client) SignalTerminal(ctx context.Context, id string, signal int) error {
	path, err := terminalPath(id, "/signal")
	if err != nil {
		return err
	}
	query := url.Values{"signal": {strconv.Itoa(signal)}}
	return c.discard(ctx, call{method: http.MethodPost, path: path, query: query})
}

// ResizeTerminal sets the window's size; the foreground process group gets SIGWINCH.
func (c *Client) ResizeTerminal(ctx context.Context, id string, rows, cols uint16) error {
	path, err := terminalPath(id, "/size")
	if err != nil {
		return err
	}
	query := url.Values{"rows": {decimal(int64(rows))}, "cols": {decimal(int64(cols))}}
	return c.discard(ctx, call{method: http.MethodPost, path: path, query: query, repeatable: true})
}

// CloseTerminal kills the program and all in its session, also what left its
// process group, and forgets the output. Idempotent.
func (c *Client) CloseTerminal(ctx context.Context, id string) error {
	path, err := terminalPath(id, "")
	if err != nil {
		return err
	}
	return c.discard(ctx, call{method: http.MethodDelete, path: path, repeatable: true})
}

func terminalPath(id, what string) (string, error) {
	if err := checkTerminalID(id); err != nil {
		return "", err
	}
	return "/terminals/" + id + what, nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
