package storetest

import (
	"context"
	"fmt"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var taskTests = map[string]func(*suite){
	"RoundTrip":  taskRoundTrip,
	"Search":     taskSearch,
	"Latest":     taskLatest,
	"Unfinished": taskUnfinished,
}

func fullTask(id string) *conversation.StartTask {
	return &conversation.StartTask{ID: id, Owner: "u", ConversationID: "c", SandboxID: "box",
		Status: conversation.TaskError, Detail: "why", Request: []byte(`{"a": 1}`), CreatedAt: at(1), UpdatedAt: at(2)}
}

func taskRoundTrip(s *suite) {
	want := fullTask("t")
	s.ok(s.StartTasks().Save(s.ctx, want))
	want.Status, want.Detail, want.Request, want.UpdatedAt = conversation.TaskWorking, "", nil, at(3)
	s.ok(s.StartTasks().Save(s.ctx, want))
	got, err := s.StartTasks().Batch(s.ctx, "u", []string{"x", "t", "t"})
	s.ok(err)
	s.equal(got, []*conversation.StartTask{nil, want, want})
	got, err = s.StartTasks().Batch(s.ctx, "v", []string{"t"})
	s.ok(err)
	s.equal(got, []*conversation.StartTask{nil})
}

func taskSearch(s *suite) {
	for i := range 7 {
		t := fullTask(fmt.Sprint("t", i))
		t.CreatedAt, t.UpdatedAt = at(i/2), at(-i)
		t.ConversationID = conversation.ID(fmt.Sprint("c", i%2))
		s.ok(s.StartTasks().Save(s.ctx, t))
	}
	other := fullTask("other")
	other.Owner = "v"
	s.ok(s.StartTasks().Save(s.ctx, other))
	cases := []struct {
		q    store.TaskQuery
		want []string
	}{
		{store.TaskQuery{Owner: "u"}, []string{"t6", "t5", "t4", "t3", "t2", "t1", "t0"}},
		{store.TaskQuery{Owner: "u", Order: store.CreatedAsc}, []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6"}},
		{store.TaskQuery{Owner: "u", Order: store.UpdatedAsc}, []string{"t6", "t5", "t4", "t3", "t2", "t1", "t0"}},
		{store.TaskQuery{Owner: "u", Order: store.UpdatedDesc}, []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6"}},
		{store.TaskQuery{ConversationID: "c1"}, []string{"t5", "t3", "t1"}},
		{store.TaskQuery{Owner: "u", CreatedFrom: at(2)}, []string{"t6", "t5", "t4"}},
	}
	for _, c := range cases {
		got := []string{}
		c.q.Limit = 2
		for {
			p, err := s.StartTasks().Search(s.ctx, c.q)
			s.ok(err)
			for _, t := range p.Items {
				got = append(got, t.ID)
			}
			if c.q.Cursor = p.Next; p.Next == "" {
				break
			}
		}
		s.equal(got, c.want)
		n, err := s.StartTasks().Count(s.ctx, c.q)
		s.ok(err)
		s.equal(n, len(c.want))
	}
}

func taskLatest(s *suite) {
	_, err := s.StartTasks().Latest(s.ctx, "c")
	s.fails(err, fault.NotFound, "")
	for i, created := range []int{1, 3, 2} {
		t := fullTask(fmt.Sprint("t", i))
		t.CreatedAt = at(created)
		s.ok(s.StartTasks().Save(s.ctx, t))
	}
	got, err := s.StartTasks().Latest(s.ctx, "c")
	s.ok(err)
	s.equal(got.ID, "t1")
}

func taskUnfinished(s *suite) {
	for i, status := range []conversation.TaskStatus{conversation.TaskReady, conversation.TaskSkills, conversation.TaskError, conversation.TaskWorking} {
		t := fullTask(fmt.Sprint("t", i))
		t.Status, t.CreatedAt = status, at(-i)
		s.ok(s.StartTasks().Save(s.ctx, t))
	}
	got, err := s.StartTasks().Unfinished(s.ctx)
	s.ok(err)
	names := []string{}
	for _, t := range got {
		names = append(names, t.ID)
	}
	s.equal(names, []string{"t3", "t1"})
}

var accountTests = map[string]func(*suite){
	"Users":             accountUsers,
	"Keys":              accountKeys,
	"MadeKeys":          accountMadeKeys,
	"Settings":          accountSettings,
	"SettingsExclusive": accountSettingsExclusive,
}

func (s *suite) user(id string) account.User {
	s.Helper()
	u := account.User{ID: id, Name: "Name of " + id, CreatedAt: epoch}
	s.ok(s.Accounts().PutUser(s.ctx, u))
	return u
}

func accountUsers(s *suite) {
	a, b := s.user("a"), s.user("b")
	a.Name = "renamed"
	s.ok(s.Accounts().PutUser(s.ctx, account.User{ID: "a", Name: "renamed", CreatedAt: at(50)}))
	got, err := s.Accounts().Users(s.ctx)
	s.ok(err)
	s.equal(got, []account.User{a, b})
}

func accountKeys(s *suite) {
	a, b := s.user("a"), s.user("b")
	h := func(k string) account.KeyHash { return account.HashKey(k) }
	s.ok(s.Accounts().SetKeys(s.ctx, "a", "first", []account.KeyHash{h("k1"), h("k2"), h("k2")}))
	s.ok(s.Accounts().SetKeys(s.ctx, "a", "second", []account.KeyHash{h("k3")}))
	s.ok(s.Accounts().SetKeys(s.ctx, "b", "first", []account.KeyHash{h("k4")}))
	s.ok(s.Accounts().SetKeys(s.ctx, "a", "first", []account.KeyHash{h("k2"), h("k5")}))
	owners := map[string]account.User{"k2": a, "k3": a, "k4": b, "k5": a}
	for key, want := range owners {
		got, err := s.Accounts().UserByKey(s.ctx, h(key))
		s.ok(err)
		s.equal(got, want)
	}
	for _, key := range []string{"k1", "unknown", ""} {
		_, err := s.Accounts().UserByKey(s.ctx, h(key))
		s.fails(err, fault.Unauthenticated, "")
	}
	s.fails(s.Accounts().SetKeys(s.ctx, "b", "x", []account.KeyHash{h("k3")}), fault.Conflict, store.CodeExists)
	s.fails(s.Accounts().SetKeys(s.ctx, "absent", "x", nil), fault.NotFound, "")
	s.ok(s.Accounts().SetKeys(s.ctx, "a", "first", nil))
	_, err := s.Accounts().UserByKey(s.ctx, h("k5"))
	s.fails(err, fault.Unauthenticated, "")
}

func fullSettings() *account.Settings {
	model, n, yes := "p/m", 3, true
	return &account.Settings{LLMModel: &model, MaxIterations: &n, ConfirmationMode: &yes, EnableDefaultCondenser: true,
		LLMAPIKey: account.NewSecret("sk-settings"), SearchAPIKey: account.NewSecret("search"),
		MCP: &account.MCPConfig{SSE: []account.MCPHTTPServer{{URL: "u", APIKey: account.NewSecret("mcp-key")}}},
		Secrets: account.Secrets{
			ProviderTokens: map[string]account.ProviderToken{"github": {Token: account.NewSecret("ghp"), Host: &model}},
			Custom:         map[string]account.CustomSecret{"X": {Value: account.NewSecret("x-value"), Description: "d"}},
		}}
}

func accountSettings(s *suite) {
	s.user("a")
	_, err := s.Accounts().Settings(s.ctx, "a")
	s.fails(err, fault.NotFound, "")
	want := fullSettings()
	s.ok(s.Accounts().UpdateSettings(s.ctx, "a", func(old *account.Settings) (*account.Settings, error) {
		if old != nil {
			return nil, fmt.Errorf("old settings of a new user: %v", old)
		}
		return want, nil
	}))
	got, err := s.Accounts().Settings(s.ctx, "a")
	s.ok(err)
	s.equal(got, want)

	refused := fault.New(fault.Invalid, "refused", "no")
	err = s.Accounts().UpdateSettings(s.ctx, "a", func(old *account.Settings) (*account.Settings, error) {
		s.equal(old, want)
		old.LLMAPIKey = account.NewSecret("other")
		return old, refused
	})
	s.fails(err, fault.Invalid, "refused")
	s.ok(s.Accounts().UpdateSettings(s.ctx, "a", func(*account.Settings) (*account.Settings, error) { return nil, nil }))
	got, err = s.Accounts().Settings(s.ctx, "a")
	s.ok(err)
	s.equal(got, want)
	_, err = s.Accounts().Settings(s.ctx, "b")
	s.fails(err, fault.NotFound, "")
	settingsSince(s, want)
}

// settingsSince: only what was stored since is read again, also if it is the same.
func settingsSince(s *suite, want *account.Settings) {
	got, first, err := s.Accounts().SettingsSince(s.ctx, "a", store.SettingsMark{})
	s.ok(err)
	s.equal(got, want)
	got, mark, err := s.Accounts().SettingsSince(s.ctx, "a", first)
	s.ok(err)
	if got != nil || mark != first {
		s.Errorf("nothing was stored since: %v, the same mark: %v", got, mark == first)
	}
	s.ok(s.Accounts().UpdateSettings(s.ctx, "a", func(old *account.Settings) (*account.Settings, error) { return old, nil }))
	got, mark, err = s.Accounts().SettingsSince(s.ctx, "a", first)
	s.ok(err)
	s.equal(got, want)
	if mark == first {
		s.Error("two times of storing have one mark")
	}
	_, _, err = s.Accounts().SettingsSince(s.ctx, "b", first)
	s.fails(err, fault.NotFound, "")
}

func accountSettingsExclusive(s *suite) {
	s.user("a")
	parallel(s.T, 12, func(int) error {
		return s.Accounts().UpdateSettings(s.ctx, "a", func(old *account.Settings) (*account.Settings, error) {
			if old == nil {
				old = &account.Settings{MaxIterations: new(int)}
			}
			*old.MaxIterations++
			return old, nil
		})
	})
	got, err := s.Accounts().Settings(s.ctx, "a")
	s.ok(err)
	s.equal(*got.MaxIterations, 12)
}

var sandboxTests = map[string]func(*suite){
	"RoundTrip":  sandboxRoundTrip,
	"Search":     sandboxSearch,
	"SessionKey": sandboxSessionKey,
	"Delete":     sandboxDelete,
}

func fullSandbox(id string) *store.Sandbox {
	return &store.Sandbox{ID: id, Owner: "u", SpecID: "spec", Backend: "local", Handle: []byte("{\x00\xff}"),
		Status: store.SandboxRunning, Detail: "d", SessionKey: account.NewSecret("key-" + id), WorkingDir: "/w",
		HostDir: "/h", CreatedAt: at(1), UpdatedAt: at(2)}
}

func sandboxRoundTrip(s *suite) {
	want := fullSandbox("b")
	s.ok(s.Sandboxes().Save(s.ctx, want))
	got, err := s.Sandboxes().Get(s.ctx, "u", "b")
	s.ok(err)
	s.equal(got, want)
	want.Handle, want.Status, want.SessionKey, want.UpdatedAt = nil, store.SandboxPaused, account.Secret{}, at(3)
	s.ok(s.Sandboxes().Save(s.ctx, want))
	got, err = s.Sandboxes().Get(s.ctx, "", "b")
	s.ok(err)
	s.equal(got, want)
	_, err = s.Sandboxes().Get(s.ctx, "v", "b")
	s.fails(err, fault.NotFound, "")
	missing := fullSandbox("m")
	missing.Status = store.SandboxMissing
	s.ok(s.Sandboxes().Save(s.ctx, missing))
}

func sandboxSearch(s *suite) {
	for i := range 5 {
		b := fullSandbox(fmt.Sprint("b", i))
		b.CreatedAt = at(i / 2)
		s.ok(s.Sandboxes().Save(s.ctx, b))
	}
	other := fullSandbox("other")
	other.Owner, other.SessionKey = "v", account.Secret{}
	s.ok(s.Sandboxes().Save(s.ctx, other))
	got := []string{}
	q := store.SandboxQuery{Owner: "u", Limit: 2}
	for {
		p, err := s.Sandboxes().Search(s.ctx, q)
		s.ok(err)
		for _, b := range p.Items {
			got = append(got, b.ID)
		}
		if q.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	s.equal(got, []string{"b4", "b3", "b2", "b1", "b0"})
	all, err := s.Sandboxes().All(s.ctx)
	s.ok(err)
	s.equal(len(all), 6)
	some, err := s.Sandboxes().Batch(s.ctx, "u", []string{"b3", "other", "x"})
	s.ok(err)
	if len(some) != 3 || some[0] == nil || some[0].ID != "b3" || some[1] != nil || some[2] != nil {
		s.Errorf("batch: %v", some)
	}
}

func sandboxSessionKey(s *suite) {
	s.ok(s.Sandboxes().Save(s.ctx, fullSandbox("a")))
	keyless := fullSandbox("keyless")
	keyless.SessionKey = account.Secret{}
	s.ok(s.Sandboxes().Save(s.ctx, keyless))
	got, err := s.Sandboxes().BySessionKey(s.ctx, account.HashKey("key-a"))
	s.ok(err)
	s.equal(got, fullSandbox("a"))
	for _, key := range []string{"", "key-b"} {
		_, err = s.Sandboxes().BySessionKey(s.ctx, account.HashKey(key))
		s.fails(err, fault.NotFound, "")
	}
	twin := fullSandbox("twin")
	twin.SessionKey = account.NewSecret("key-a")
	s.fails(s.Sandboxes().Save(s.ctx, twin), fault.Conflict, store.CodeExists)
}

func sandboxDelete(s *suite) {
	s.ok(s.Sandboxes().Save(s.ctx, fullSandbox("a")))
	s.ok(s.Sandboxes().Delete(s.ctx, "a"))
	s.ok(s.Sandboxes().Delete(s.ctx, "a"))
	_, err := s.Sandboxes().Get(s.ctx, "", "a")
	s.fails(err, fault.NotFound, "")
}

var projectionTests = map[string]func(*suite){
	"Extend":    projectionExtend,
	"OneWinner": projectionOneWinner,
}

func projectionExtend(s *suite) {
	s.create("u", "c")
	entries := []store.ProjectionEntry{{ID: 0, Seq: 0, Part: 0}, {ID: 1, Seq: 0, Part: 1}, {ID: 2, Seq: 3, Part: 0}}
	s.ok(s.Projections().Extend(s.ctx, "c", "v0", 0, 0, 5, entries))
	nextID, nextSeq, err := s.Projections().Cursor(s.ctx, "c", "v0")
	s.ok(err)
	s.equal([]int64{nextID, nextSeq}, []int64{3, 5})
	s.fails(s.Projections().Extend(s.ctx, "c", "v0", 0, 0, 5, entries), fault.Conflict, store.CodeHeadMoved)
	s.fails(s.Projections().Extend(s.ctx, "c", "v0", 3, 4, 5, nil), fault.Conflict, store.CodeHeadMoved)
	s.ok(s.Projections().Extend(s.ctx, "c", "v0", 3, 5, 9, nil)) // nothing derived, the cursor moves
	if err := s.Projections().Extend(s.ctx, "c", "v0", 3, 9, 10, []store.ProjectionEntry{{ID: 4}}); err == nil {
		s.Error("a gap in the ids was accepted")
	}
	for _, r := range []struct {
		from, to int64
		desc     bool
		limit    int
		want     []store.ProjectionEntry
	}{{0, 9, false, 9, entries}, {1, 2, false, 9, entries[1:]}, {0, 9, false, 1, entries[:1]},
		{0, 9, true, 1, entries[2:]}, {3, 9, false, 9, []store.ProjectionEntry{}}} {
		got, err := s.Projections().Range(s.ctx, "c", "v0", r.from, r.to, r.desc, r.limit)
		s.ok(err)
		s.equal(got, r.want)
	}
	nextID, nextSeq, err = s.Projections().Cursor(s.ctx, "c", "other")
	s.ok(err)
	s.equal([]int64{nextID, nextSeq}, []int64{0, 0})
	_, _, err = s.Projections().Cursor(s.ctx, "absent", "v0")
	s.fails(err, fault.NotFound, "")
	s.fails(s.Projections().Extend(s.ctx, "absent", "v0", 0, 0, 1, nil), fault.NotFound, "")
}

func projectionOneWinner(s *suite) {
	s.create("u", "c")
	parallel(s.T, 6, func(int) error {
		for {
			id, seq, err := s.Projections().Cursor(s.ctx, "c", "v0")
			if err != nil || id >= 12 {
				return err
			}
			err = s.Projections().Extend(s.ctx, "c", "v0", id, seq, seq+1, []store.ProjectionEntry{{ID: id, Seq: seq}})
			if err != nil && fault.CodeOf(err) != store.CodeHeadMoved {
				return err
			}
		}
	})
	got, err := s.Projections().Range(s.ctx, "c", "v0", 0, 100, false, 100)
	s.ok(err)
	for i, e := range got {
		if e.ID != int64(i) || e.Seq != int64(i) {
			s.Fatalf("entry %d is %+v", i, e)
		}
	}
	s.equal(len(got), 12)
}

var storeTests = map[string]func(*suite){
	"Ping":            func(s *suite) { s.ok(s.Ping(s.ctx)); s.ok(s.Ping(s.ctx)) },
	"EmptyLists":      storeEmptyLists,
	"CanceledContext": storeCanceled,
	"ClosedStore":     storeClosed,
	"PanicIsOwn":      storePanic,
}

// storeEmptyLists: lists are empty, not nil, so that encoders write [].
func storeEmptyLists(s *suite) {
	p, err := s.Conversations().Search(s.ctx, store.ConversationQuery{})
	s.ok(err)
	tasks, err := s.StartTasks().Unfinished(s.ctx)
	s.ok(err)
	boxes, err := s.Sandboxes().All(s.ctx)
	s.ok(err)
	if p.Items == nil || p.Next != "" || tasks == nil || boxes == nil {
		s.Errorf("an empty list is nil: %v %v %v", p.Items, tasks, boxes)
	}
}

func storeCanceled(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.Conversations().Search(ctx, store.ConversationQuery{})
	s.fails(err, fault.Canceled, "")
	s.fails(s.Ping(ctx), fault.Canceled, "")
	s.fails(s.Conversations().Create(ctx, &conversation.Conversation{ID: "c"}), fault.Canceled, "")
	_, err = s.Conversations().Get(s.ctx, "", "c")
	s.fails(err, fault.NotFound, "")
}

func storeClosed(s *suite) {
	s.create("u", "c")
	s.ok(s.Close())
	s.fails(s.Ping(s.ctx), fault.Unavailable, "")
	_, err := s.Conversations().Get(s.ctx, "", "c")
	s.fails(err, fault.Unavailable, "")
	s.ok(s.Close())
}

// storePanic: a panic of a change is the caller's, and hurts nobody else.
func storePanic(s *suite) {
	s.create("u", "c")
	seen := func() (seen any) {
		defer func() { seen = recover() }()
		_, err := s.Conversations().Update(s.ctx, "c", at(1), func(c *conversation.Conversation) error {
			c.Title = "half"
			panic("boom")
		})
		return err
	}()
	s.equal(seen, any("boom"))
	s.equal(s.get("c").Title, "Title of c")
	s.ok(s.Ping(s.ctx))
}
