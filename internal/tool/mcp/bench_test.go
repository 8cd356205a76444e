package mcp_test

import (
	"testing"

	"parley/internal/tool"
	"parley/internal/tool/mcp/mcptest"
)

// BenchmarkCall measures one call, from the action to the observation.
func BenchmarkCall(b *testing.B) {
	for name, server := range map[string]func() tool.Server{
		"stdio": func() tool.Server { return program(b, "x", mcptest.Fine) },
		"http":  func() tool.Server { return remote("x", listen(b, (&mcptest.Server{}).Handler())) },
		"sdk":   func() tool.Server { return remote("x", streamable(b, sdkServer(), nil)) },
	} {
		b.Run(name, func(b *testing.B) {
			bench := newBench(b)
			call := "echo"
			if name == "sdk" {
				call = "greet"
			}
			tl := find(b, bench.open(server()), call)
			action, err := tl.Parse([]byte(`{"name":"x"}`))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if r, err := tl.Run(b.Context(), bench.Env, action); err != nil || r.IsError {
					b.Fatal(r, err)
				}
			}
		})
	}
}
