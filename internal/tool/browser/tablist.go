package browser

import (
	"context"
)

// TabAction is the input of browser_switch_tab and browser_close_tab.
type TabAction struct {
	Tab string `json:"tab_id" desc:"The tab's id, from browser_list_tabs."`
}

func listTabs(ctx context.Context, b *browser, _ Empty) (reply, error) {
	if err := b.refresh(ctx); err != nil {
		return reply{}, err
	}
	return reply{text: b.tabs.text()}, nil
}

func switchTab(ctx context.Context, b *browser, in TabAction) (reply, error) {
	x, err := b.tabs.find(in.Tab)
	if err != nil {
		return reply{}, err
	}
	if err := b.show(ctx, x); err != nil {
		return reply{}, err
	}
	return reply{text: "Switched. " + b.where(ctx)}, nil
}

// closeTab closes a tab. The last one is replaced by an empty one: a browser without
// tabs would end.
func closeTab(ctx context.Context, b *browser, in TabAction) (reply, error) {
	x, err := b.tabs.find(in.Tab)
	if err != nil {
		return reply{}, err
	}
	if all, active := b.tabs.snapshot(); len(all) == 1 {
		if _, err := b.open(ctx); err != nil {
			return reply{}, err
		}
	} else if active == x.target {
		next := all[0]
		for _, other := range all {
			if other.target != x.target {
				next = other // the one opened last
			}
		}
		if err := b.show(ctx, next); err != nil {
			return reply{}, err
		}
	}
	if err := b.command(ctx, "Target.closeTarget", map[string]any{"targetId": x.target}, nil); err != nil {
		return reply{}, err
	}
	limited, cancel := within(ctx, b.times.Step, "The tab did not close")
	defer cancel()
	if err := b.tabs.wait(limited, func() bool { return b.tabs.byTargetLocked(x.target) == nil }); err != nil {
		return reply{}, err
	}
	return reply{text: "Closed the tab. " + b.where(ctx)}, nil
}
