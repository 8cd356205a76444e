package browser

import (
	"embed"
	"strings"

	"parley/internal/tool"
)

// prose is what models read of each tool, in a file with its name.
//
//go:embed prose/*.md
var prose embed.FS

// describe returns the prose of a tool.
func describe(name string) string {
	text, err := prose.ReadFile("prose/" + strings.TrimPrefix(name, "browser_") + ".md")
	if err != nil { // the files are part of the program
		panic(err)
	}
	return string(text)
}

// Tools are the tools of the set, in the order in which models see them.
func (s *Browsers) Tools() []tool.Tool {
	return []tool.Tool{
		made(s, "browser_navigate", navigate),
		made(s, "browser_click", click),
		made(s, "browser_type", typeText),
		reading(s, "browser_get_state", getState),
		reading(s, "browser_get_content", getContent),
		made(s, "browser_scroll", scroll),
		made(s, "browser_go_back", back),
		reading(s, "browser_list_tabs", listTabs),
		made(s, "browser_switch_tab", switchTab),
		made(s, "browser_close_tab", closeTab),
		reading(s, "browser_get_storage", getStorage),
		made(s, "browser_set_storage", setStorage, tool.WithCheck(checkStorage)),
		made(s, "browser_start_recording", startRecording),
		made(s, "browser_stop_recording", stopRecording),
	}
}

// made makes a tool that does something in the browser.
func made[In any](s *Browsers, name string, do action[In], opts ...tool.Option[In]) tool.Tool {
	return assemble(s, tool.Spec{Name: name, OpenWorld: true}, do, opts...)
}

// reading makes a tool that changes nothing that a page could notice.
func reading[In any](s *Browsers, name string, do action[In]) tool.Tool {
	return assemble(s, tool.Spec{Name: name, ReadOnly: true, Idempotent: true, OpenWorld: true}, do)
}

func assemble[In any](s *Browsers, spec tool.Spec, do action[In], opts ...tool.Option[In]) tool.Tool {
	spec.Description, spec.ObservationKind = describe(spec.Name), ObservationKind
	return tool.New(spec, run(s, do), append(opts, tool.WithClaims(claims[In]))...)
}
