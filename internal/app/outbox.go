package app

import (
	"context"

	"parley/internal/outbox"
	"parley/internal/tool/mcp/egress"
)

// openOutbox begins to send events to the endpoints that users registered.
func (a *App) openOutbox(ctx context.Context) error {
	dial, err := egress.Dialer(egress.Config{Allow: a.cfg.WebhookAllowPrivate, Key: "webhook_allow_private"})
	if err != nil {
		return err
	}
	a.outbox = outbox.New(outbox.Options{Store: a.store.Webhooks(), Log: a.store.Events(), Dial: dial, Logger: a.log})
	a.hub.OnWake(a.outbox.Wake)
	return a.outbox.Open(ctx)
}
