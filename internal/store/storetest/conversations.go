package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var conversationTests = map[string]func(*suite){
	"RoundTrip":         conversationRoundTrip,
	"CreateTwice":       conversationCreateTwice,
	"GetOwner":          conversationGetOwner,
	"Batch":             conversationBatch,
	"Children":          conversationChildren,
	"Filters":           conversationFilters,
	"Orders":            conversationOrders,
	"PagingIsStable":    conversationPaging,
	"UnknownCursor":     conversationUnknownCursor,
	"Awake":             conversationAwake,
	"Update":            conversationUpdate,
	"UpdateFails":       conversationUpdateFails,
	"UpdateIsExclusive": conversationUpdateExclusive,
	"Delete":            conversationDelete,
}

// fullConversation has every field set.
func fullConversation(id string) *conversation.Conversation {
	yes, budget := true, 2.5
	return &conversation.Conversation{
		ID: conversation.ID(id), Owner: "user-1", Origin: conversation.OriginV0, Title: "Ünïcode \x00 title",
		TitleByUser: true, SandboxID: "box", ParentID: "parent", Repository: "a/b", Branch: "main",
		GitProvider: "github", Trigger: "gui", PRNumbers: []int{1, 2}, AgentKind: "openhands", AgentType: "plan",
		Public: &yes, Tags: map[string]string{"k": "v"},
		Options: conversation.Options{
			LLM: account.LLM{Model: "p/m", BaseURL: "http://x", APIKey: account.NewSecret("sk-options")}, MaxIterations: 7,
			MaxBudget: &budget, ConfirmationMode: true, SystemSuffix: "suffix", WorkingDir: "/w",
			MCP: &account.MCPConfig{SSE: []account.MCPHTTPServer{{URL: "http://s", APIKey: account.NewSecret("sse-key")}},
				Stdio: []account.MCPStdioServer{{Name: "n", Command: "c", Args: []string{"a"},
					Env: map[string]account.Secret{"TOKEN": account.NewSecret("env-secret")}}},
				SHTTP: []account.MCPHTTPServer{}},
			Secrets: map[string]account.CustomSecret{"S": {Value: account.NewSecret("custom"), Description: "d"}},
			Demo:    true,
		},
		Summary: conversation.Summary{Status: conversation.Paused, Head: 0,
			Metrics: conversation.Metrics{ModelName: "m", AccumulatedCost: 0.25, MaxBudget: &budget,
				Usage: conversation.Usage{Model: "m", PromptTokens: 1 << 40}}},
		CreatedAt: at(1), UpdatedAt: at(2),
		InitialMessage: []content.Part{content.Text("hello"), content.Image("data:image/png;base64,AAAA")},
		ForkedFrom:     "source", ForkedAt: "event-7",
	}
}

func conversationRoundTrip(s *suite) {
	want := fullConversation("full")
	s.ok(s.Conversations().Create(s.ctx, want))
	got, err := s.Conversations().Get(s.ctx, "user-1", "full")
	s.ok(err)
	s.equal(got, want)

	empty := &conversation.Conversation{ID: "empty"}
	s.ok(s.Conversations().Create(s.ctx, empty))
	s.equal(s.get("empty"), empty)
}

func conversationCreateTwice(s *suite) {
	s.create("user-1", "c")
	for _, owner := range []string{"user-1", "user-2"} {
		err := s.Conversations().Create(s.ctx, &conversation.Conversation{ID: "c", Owner: owner, Title: "other"})
		s.fails(err, fault.Conflict, store.CodeExists)
	}
	if c := s.get("c"); c.Owner != "user-1" || c.Title != "Title of c" {
		s.Errorf("the refused create changed the record: %+v", c)
	}
}

func conversationGetOwner(s *suite) {
	s.create("user-1", "c")
	for _, owner := range []string{"", "user-1"} {
		_, err := s.Conversations().Get(s.ctx, owner, "c")
		s.ok(err)
	}
	_, err := s.Conversations().Get(s.ctx, "user-2", "c")
	s.fails(err, fault.NotFound, "")
	_, err = s.Conversations().Get(s.ctx, "", "absent")
	s.fails(err, fault.NotFound, "")
}

func conversationBatch(s *suite) {
	var want []conversation.ID
	for i := range 600 { // more than fits in one statement of some engines
		want = append(want, conversation.ID(fmt.Sprintf("absent-%d", i)))
	}
	s.create("user-1", "a")
	s.create("user-2", "b")
	want = append(want, "b", "x", "a", "a")
	got, err := s.Conversations().Batch(s.ctx, "user-1", want)
	s.ok(err)
	names := make([]string, len(got))
	for i, c := range got {
		if c != nil {
			names[i] = string(c.ID)
		}
	}
	s.equal(names[600:], []string{"", "", "a", "a"})
	got, err = s.Conversations().Batch(s.ctx, "", []conversation.ID{"b"})
	s.ok(err)
	if len(got) != 1 || got[0] == nil {
		s.Errorf("owner \"\" does not mean any: %v", got)
	}
}

func conversationChildren(s *suite) {
	s.create("user-1", "a")
	s.create("user-1", "b")
	s.create("user-1", "late", func(c *conversation.Conversation) { c.ParentID, c.CreatedAt = "a", at(20) })
	s.create("user-1", "early", func(c *conversation.Conversation) { c.ParentID, c.CreatedAt = "a", at(10) })
	s.create("user-2", "foreign", func(c *conversation.Conversation) { c.ParentID = "a" })
	got, err := s.Conversations().Children(s.ctx, "user-1", []conversation.ID{"a", "b", "a", "none"})
	s.ok(err)
	s.equal(got, map[conversation.ID][]conversation.ID{"a": {"early", "late"}})
	got, err = s.Conversations().Children(s.ctx, "user-1", nil)
	s.ok(err)
	s.equal(got, map[conversation.ID][]conversation.ID{})
}

func conversationFilters(s *suite) {
	s.create("user-1", "a", func(c *conversation.Conversation) { c.Title, c.SandboxID = "Fix 100% of ÄPFEL", "box" })
	s.create("user-1", "b", func(c *conversation.Conversation) { c.Repository, c.Trigger, c.CreatedAt = "r/r", "gui", at(10) })
	s.create("user-1", "sub", func(c *conversation.Conversation) { c.ParentID, c.CreatedAt = "a", at(20) })
	s.create("user-2", "d", func(c *conversation.Conversation) { c.Summary.Status, c.UpdatedAt = conversation.Running, at(30) })
	type query = store.ConversationQuery
	cases := []struct {
		name string
		q    query
		want []string
	}{
		{"nothing", query{}, []string{"a", "b", "d"}},
		{"owner", query{Owner: "user-1"}, []string{"a", "b"}},
		{"unknown owner", query{Owner: "user-3"}, []string{}},
		{"with subs", query{Owner: "user-1", WithSubs: true}, []string{"a", "b", "sub"}},
		{"parent", query{ParentID: "a"}, []string{"sub"}},
		{"title in another case", query{TitleContains: "fix 100% OF äp"}, []string{"a"}},
		{"percent sign is literal", query{TitleContains: "1%0"}, []string{}},
		{"underscore is literal", query{TitleContains: "_"}, []string{}},
		{"sandbox", query{SandboxID: "box"}, []string{"a"}},
		{"repository", query{Repository: "r/r"}, []string{"b"}},
		{"trigger", query{Trigger: "gui"}, []string{"b"}},
		{"status", query{Status: conversation.Running}, []string{"d"}},
		{"created from is inclusive", query{CreatedFrom: at(10)}, []string{"b"}},
		{"created to is exclusive", query{CreatedTo: at(10)}, []string{"a", "d"}},
		{"updated from", query{UpdatedFrom: at(30)}, []string{"d"}},
		{"updated to", query{UpdatedTo: at(30)}, []string{"a", "b"}},
		{"all together", query{Owner: "user-1", Repository: "r/r", SandboxID: "box"}, []string{}},
	}
	for _, c := range cases {
		s.Run(c.name, func(t *testing.T) {
			sub := &suite{T: t, Store: s.Store, ctx: s.ctx}
			c.q.Order = store.CreatedAsc
			got, err := s.Conversations().Search(s.ctx, c.q)
			sub.ok(err)
			names := conversationIDs(got.Items)
			slices.Sort(names)
			sub.equal(names, c.want)
			n, err := s.Conversations().Count(s.ctx, c.q)
			sub.ok(err)
			if n != len(c.want) {
				t.Errorf("count %d, want %d", n, len(c.want))
			}
		})
	}
}

func conversationIDs(items []*conversation.Conversation) []string {
	out := []string{}
	for _, c := range items {
		out = append(out, string(c.ID))
	}
	return out
}

func conversationOrders(s *suite) {
	for i, id := range []string{"d", "a", "c", "b"} { // c and b share all keys
		n := min(i, 2)
		s.create("u", id, func(c *conversation.Conversation) {
			c.CreatedAt, c.UpdatedAt, c.Title = at(n), at(-n), []string{"m", "Z", "b"}[n]
		})
	}
	for order, want := range map[store.Order][]string{
		"":                {"c", "b", "a", "d"},
		store.CreatedAsc:  {"d", "a", "b", "c"},
		store.CreatedDesc: {"c", "b", "a", "d"},
		store.UpdatedAsc:  {"b", "c", "a", "d"},
		store.UpdatedDesc: {"d", "a", "c", "b"},
		store.TitleAsc:    {"b", "c", "d", "a"},
		store.TitleDesc:   {"a", "d", "c", "b"},
	} {
		var got []string
		q := store.ConversationQuery{Order: order, Limit: 1}
		for {
			p, err := s.Conversations().Search(s.ctx, q)
			s.ok(err)
			got = append(got, conversationIDs(p.Items)...)
			if p.Next == "" {
				break
			}
			q.Cursor = p.Next
		}
		if !slices.Equal(got, want) {
			s.Errorf("order %q by pages of one: %v, want %v", order, got, want)
		}
	}
}

// conversationPaging changes the list between pages: whatever was there all the
// time must be seen exactly once.
func conversationPaging(s *suite) {
	round := 0
	rapid.Check(s.T, func(t *rapid.T) {
		round++
		owner := fmt.Sprintf("owner-%d", round)
		order := rapid.SampledFrom([]store.Order{store.CreatedAsc, store.CreatedDesc, store.TitleAsc, store.TitleDesc,
			store.UpdatedAsc, store.UpdatedDesc}).Draw(t, "order")
		next := 0
		add := func() conversation.ID {
			next++
			id := conversation.ID(fmt.Sprintf("%s-%d", owner, next))
			when := at(rapid.IntRange(0, 5).Draw(t, "time"))
			c := &conversation.Conversation{ID: id, Owner: owner, Title: rapid.StringN(0, 2, -1).Draw(t, "title"),
				CreatedAt: when, UpdatedAt: when}
			if err := s.Conversations().Create(s.ctx, c); err != nil {
				t.Fatal(err)
			}
			return id
		}
		stay := map[conversation.ID]int{}
		for range rapid.IntRange(0, 12).Draw(t, "initial") {
			stay[add()] = 0
		}
		q := store.ConversationQuery{Owner: owner, Order: order, Limit: rapid.IntRange(1, 5).Draw(t, "limit")}
		for pages := 0; ; pages++ {
			p, err := s.Conversations().Search(s.ctx, q)
			if err != nil || pages > 200 || len(p.Items) > q.Limit {
				t.Fatalf("page %d: %d items, %v", pages, len(p.Items), err)
			}
			for _, c := range p.Items {
				if _, ok := stay[c.ID]; ok {
					stay[c.ID]++
				}
			}
			if p.Next == "" {
				break
			}
			q.Cursor = p.Next
			if rapid.Bool().Draw(t, "insert") && pages < 20 {
				add()
			}
			if rapid.Bool().Draw(t, "delete") {
				for id := range stay {
					if err := s.Conversations().Delete(s.ctx, id); err != nil {
						t.Fatal(err)
					}
					delete(stay, id)
					break
				}
			}
		}
		for id, n := range stay {
			if n != 1 {
				t.Fatalf("%s was seen %d times", id, n)
			}
		}
	})
}

func conversationUnknownCursor(s *suite) {
	s.create("u", "a")
	s.create("u", "b")
	first, err := s.Conversations().Search(s.ctx, store.ConversationQuery{Limit: 1, Order: store.TitleAsc})
	s.ok(err)
	for _, cursor := range []string{"100", "!!!", "e30", "bnVsbA", first.Next} { // the last is of another order
		p, err := s.Conversations().Search(s.ctx, store.ConversationQuery{Cursor: cursor, Order: store.CreatedAsc})
		s.ok(err)
		s.equal(conversationIDs(p.Items), []string{"a", "b"})
	}
}

func conversationAwake(s *suite) {
	for id, status := range map[string]store.SandboxStatus{"runs": store.SandboxRunning, "starts": store.SandboxStarting, "paused": store.SandboxPaused} {
		b := fullSandbox("box-" + id)
		b.Status = status
		s.ok(s.Sandboxes().Save(s.ctx, b))
		s.create("u", id, func(c *conversation.Conversation) { c.SandboxID = b.ID })
	}
	s.create("u", "none")
	s.create("u", "missing", func(c *conversation.Conversation) { c.SandboxID = "gone" })
	s.create("v", "other", func(c *conversation.Conversation) { c.SandboxID = "box-runs" })
	p, err := s.Conversations().Search(s.ctx, store.ConversationQuery{Owner: "u", Awake: true, Order: store.CreatedAsc})
	s.ok(err)
	s.equal(conversationIDs(p.Items), []string{"runs", "starts"})
	n, err := s.Conversations().Count(s.ctx, store.ConversationQuery{Owner: "v", Awake: true})
	s.ok(err)
	s.equal(n, 0) // the sandbox is another owner's
}

func conversationUpdate(s *suite) {
	want := fullConversation("c")
	s.ok(s.Conversations().Create(s.ctx, want))
	s.create("other", "untouched")
	change := func(c *conversation.Conversation) {
		c.Title, c.TitleByUser, c.SandboxID, c.Branch = "new", false, "box-2", "dev"
		c.PRNumbers, c.Public, c.Tags = nil, nil, map[string]string{"x": "y"}
		c.Options.LLM.APIKey = account.NewSecret("sk-other")
		c.InitialMessage = nil
	}
	got, err := s.Conversations().Update(s.ctx, "c", at(99), func(c *conversation.Conversation) error {
		change(c)
		return nil
	})
	s.ok(err)
	change(want)
	want.UpdatedAt = at(99)
	s.equal(got, want)
	s.equal(s.get("c"), want)
	if c := s.get("untouched"); c.Title != "Title of untouched" || !c.UpdatedAt.Equal(epoch) {
		s.Errorf("the update changed another record: %+v", c)
	}
}

func conversationUpdateFails(s *suite) {
	want := s.create("u", "c")
	refused := errors.New("refused")
	cases := map[string]func(*conversation.Conversation) error{
		"error":      func(c *conversation.Conversation) error { c.Title = "x"; return refused },
		"id":         func(c *conversation.Conversation) error { c.ID = "d"; return nil },
		"owner":      func(c *conversation.Conversation) error { c.Owner = "v"; return nil },
		"summary":    func(c *conversation.Conversation) error { c.Summary.Status = conversation.Running; return nil },
		"lease":      func(c *conversation.Conversation) error { c.LeaseHolder = "me"; return nil },
		"generation": func(c *conversation.Conversation) error { c.Generation++; return nil },
		"forked":     func(c *conversation.Conversation) error { c.ForkedFrom = "x"; return nil },
		"forked at":  func(c *conversation.Conversation) error { c.ForkedAt = "x"; return nil },
	}
	for name, change := range cases {
		_, err := s.Conversations().Update(s.ctx, "c", at(9), change)
		if err == nil || (name == "error" && !errors.Is(err, refused)) {
			s.Errorf("%s: error %v", name, err)
		}
		s.equal(s.get("c"), want)
	}
	_, err := s.Conversations().Update(s.ctx, "absent", at(9), func(*conversation.Conversation) error { return nil })
	s.fails(err, fault.NotFound, "")
}

// conversationUpdateExclusive lets many updates read and write one counter.
func conversationUpdateExclusive(s *suite) {
	s.create("u", "c")
	parallel(s.T, 16, func(int) error {
		_, err := s.Conversations().Update(s.ctx, "c", time.Now(), func(c *conversation.Conversation) error {
			c.Title += "."
			return nil
		})
		return err
	})
	if got := s.get("c").Title; got != "Title of c................" {
		s.Errorf("title %q: updates were lost", got)
	}
}

func conversationDelete(s *suite) {
	for _, id := range []string{"gone", "stays"} {
		s.create("u", id)
		s.append(conversation.ID(id), message("m", "text", epoch))
		s.ok(s.StartTasks().Save(s.ctx, &conversation.StartTask{ID: "t-" + id, ConversationID: conversation.ID(id)}))
		s.ok(s.Projections().Extend(s.ctx, conversation.ID(id), "v0", 0, 0, 1, []store.ProjectionEntry{{}}))
	}
	s.ok(s.Conversations().Delete(s.ctx, "gone"))
	s.fails(s.Conversations().Delete(s.ctx, "gone"), fault.NotFound, "")

	s.create("u", "gone") // the same id again starts from nothing
	events, err := s.Events().Read(s.ctx, "gone", -1, 10)
	s.ok(err)
	nextID, _, err := s.Projections().Cursor(s.ctx, "gone", "v0")
	s.ok(err)
	_, taskErr := s.StartTasks().Latest(s.ctx, "gone")
	s.fails(taskErr, fault.NotFound, "")
	entries, err := s.Projections().Range(s.ctx, "gone", "v0", 0, 9, false, 10)
	s.ok(err)
	if len(events) != 0 || nextID != 0 || len(entries) != 0 || s.get("gone").Summary.Head != 0 {
		s.Errorf("left over: %d events, cursor %d, %d entries", len(events), nextID, len(entries))
	}
	events, err = s.Events().Read(s.ctx, "stays", -1, 10)
	s.ok(err)
	if len(events) != 1 {
		s.Errorf("the other log has %d events, want 1", len(events))
	}
}
