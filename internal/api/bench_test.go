package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
)

// BenchmarkBatchOf100 asks for 100 conversations among 1,000 by id, over HTTP.
func BenchmarkBatchOf100(b *testing.B) { benchmarkList(b, "?"+repeatIDs(100)) }

// BenchmarkSearchOf100 asks for a page of 100 conversations among 1,000.
func BenchmarkSearchOf100(b *testing.B) { benchmarkList(b, "/search?limit=100") }

func repeatIDs(n int) string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("ids=%032x", i))
	}
	return strings.Join(ids, "&")
}

func benchmarkList(b *testing.B, query string) {
	w := newWorld(b)
	now := time.Now().UTC()
	for i := range 1000 {
		err := w.store.Conversations().Create(b.Context(), &conversation.Conversation{
			ID: conversation.ID(fmt.Sprintf("%032x", i)), Owner: account.FirstUserID, Origin: conversation.OriginV1,
			Title: "t", AgentKind: "openhands", CreatedAt: now.Add(time.Duration(i)), UpdatedAt: now,
			Summary: conversation.Summary{Status: conversation.Idle}, Options: conversation.Options{MaxIterations: 1}})
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), "GET", w.server.URL+"/api/v1/app-conversations"+query, nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("X-Session-API-Key", userKey)
		resp, err := w.server.Client().Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			b.Fatal(resp.Status)
		}
	}
}
