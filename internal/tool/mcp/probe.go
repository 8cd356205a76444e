package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/content"
	"parley/internal/tool"
)

// maxReport bounds the result of a call for a test, in bytes.
const maxReport = 1 << 20

// Test implements tool.ServerHost. It needs no session: what it starts ends with it.
func (h *Host) Test(ctx context.Context, opt tool.ServerOptions, config tool.Server, call *tool.ServerCall) tool.ServerReport {
	done := make(chan tool.ServerReport, 1)
	go func() {
		var r tool.ServerReport
		if err := h.probe(ctx, &opt, &config, call, &r); err != nil {
			text, kind := describe(err)
			if ctx.Err() != nil && kind != kindTimeout {
				text, kind = "It did not answer in time. "+text, kindTimeout
			}
			r = tool.ServerReport{Error: text, ErrorKind: kind}
		}
		done <- r
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	// What it does at the end of ctx takes a moment, and says more.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), endGrace/2)
	defer cancel()
	select {
	case r := <-done:
		return r
	case <-grace.Done():
		return tool.ServerReport{Error: "It did not answer in time.", ErrorKind: kindTimeout}
	}
}

func (h *Host) probe(ctx context.Context, opt *tool.ServerOptions, config *tool.Server, call *tool.ServerCall, r *tool.ServerReport) (err error) {
	defer recovered(&err)
	if (config.HTTP == nil) == (config.Stdio == nil) {
		return errors.New("it has neither an address nor a command")
	}
	// A link ends with ctx, but not before it has said what was wrong.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	d := &dialer{cfg: &h.cfg, opt: opt, server: config, changed: func() {}, ctx: life}
	if err := d.enter(ctx); err != nil {
		return err
	}
	l, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer l.close(errClosing)
	if err := h.examine(ctx, l, call, r); err != nil {
		l.close(errClosing)
		return l.explain(err)
	}
	return nil
}

// examine lists the tools of a server and calls one of them.
func (h *Host) examine(ctx context.Context, l *link, call *tool.ServerCall, r *tool.ServerReport) error {
	c, err := l.list(ctx)
	if err != nil {
		return err
	}
	r.OK, r.Tools = true, []tool.ServerTool{}
	for _, o := range c.tools {
		r.Tools = append(r.Tools, tool.ServerTool{Name: o.name, Description: o.description, InputSchema: o.parameters})
	}
	if call == nil {
		return nil
	}
	params := &sdk.CallToolParams{Name: call.Name, Arguments: call.Arguments}
	if call.Arguments == nil {
		params.Arguments = map[string]any{}
	}
	result, err := l.session.CallTool(ctx, params)
	if err != nil {
		return fmt.Errorf("call %s: %w", call.Name, err)
	}
	raw, err := content.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	if len(raw) > maxReport {
		raw, err = content.Marshal(map[string]any{"content": []content.Part{content.Text(fmt.Sprintf("The result has %d bytes, more than are shown.", len(raw)))}})
	}
	r.Result = json.RawMessage(raw)
	return err
}
