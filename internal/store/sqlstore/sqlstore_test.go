package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/store/storetest"
	"parley/internal/vault"
)

// childVar names what a re-executed test binary does instead of the tests.
const (
	childVar = "SQLSTORE_TEST_CHILD"
	dirVar   = "SQLSTORE_TEST_DIR"
)

func TestMain(m *testing.M) {
	children := map[string]func(dir string) error{"append": childAppend, "spend": childSpend, "fork": childFork,
		"extend": childExtend, "full": childFull, "limit": childLimit}
	if run, ok := children[os.Getenv(childVar)]; ok {
		if err := run(os.Getenv(dirVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child makes the command of a child that works in dir.
func child(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childVar+"="+what, dirVar+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// openDir opens the store of a data directory.
func openDir(ctx context.Context, dir string) (*sqlstore.Store, error) {
	v, err := vault.Open(dir)
	if err != nil {
		return nil, err
	}
	return sqlstore.Open(ctx, sqlstore.Options{Path: dbPath(dir), Sealer: v})
}

func dbPath(dir string) string { return filepath.Join(dir, "parley.db") }

func open(t testing.TB, dir string) *sqlstore.Store {
	t.Helper()
	s, err := openDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// raw opens the database file beside a closed or open store.
func raw(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dbPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.Exec(text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func closeStore(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// fill makes a conversation with a few events.
func fill(t testing.TB, s *sqlstore.Store, id conversation.ID, events int) {
	t.Helper()
	if err := s.Conversations().Create(t.Context(), &conversation.Conversation{ID: id, Owner: "u"}); err != nil {
		t.Fatal(err)
	}
	for head := 0; head < events; head += 1000 {
		appendSome(t, s, id, head, min(1000, events-head))
	}
}

func appendSome(t testing.TB, s *sqlstore.Store, id conversation.ID, head, n int) {
	t.Helper()
	batch := make([]conversation.Event, n)
	for i := range batch {
		batch[i] = event(head + i)
	}
	err := s.Events().Append(t.Context(), store.Append{Conversation: id, ExpectHead: int64(head), Events: batch})
	if err != nil {
		t.Fatal(err)
	}
}

// event makes the n-th event of a log; one in fifty is a message.
func event(n int) conversation.Event {
	stamp := fmt.Sprintf("2026-03-01T12:%02d:%02d.%06d", n/60000%60, n/1000%60, n%1000*1000)
	kind := conversation.KindObservation
	if n%50 == 0 {
		kind = conversation.KindMessage
	}
	raw := fmt.Sprintf(`{"kind":%q,"id":"e%d","source":"agent","timestamp":%q,"x":%q}`, kind, n, stamp, strings.Repeat("x", 700))
	return conversation.Event{ID: fmt.Sprint("e", n), Kind: kind, Source: "agent", Timestamp: stamp, Raw: []byte(raw)}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := openDir(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func childAppend(dir string) error {
	s, err := openDir(context.Background(), dir)
	if err != nil {
		return err
	}
	return storetest.AppendForever(context.Background(), s, os.Stdout)
}

func TestKilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	storetest.KillAndCheck(t, func() *exec.Cmd { return child(t, "append", dir) }, func() store.Store {
		s, err := openDir(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestOneProcessPerDirectory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	_, err := openDir(t.Context(), dir)
	if fault.CodeOf(err) != sqlstore.CodeInUse || !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(fault.PublicText(err), fmt.Sprintf("another parley serve (pid %d)", os.Getpid())) {
		t.Errorf("second open: %v", err)
	}
	closeStore(t, s)
	open(t, dir)
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: dbPath(dir), Sealer: newVault(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	fill(t, s, "c", 1)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %v (%v), want 0700", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 4 { // database, log, index of the log, lock
		t.Fatalf("entries %v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", e.Name(), info.Mode(), err)
		}
	}
}

func newVault(t *testing.T) *vault.Vault {
	t.Helper()
	v, err := vault.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPathWithOddCharacters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e&f'g")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	fill(t, s, "c", 1)
	if _, err := os.Stat(dbPath(dir)); err != nil {
		t.Error(err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir))
	execute(t, raw(t, dir), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
	_, err := openDir(t.Context(), dir)
	if fault.CodeOf(err) != sqlstore.CodeTooNew || !strings.Contains(fault.PublicText(err), "9999") {
		t.Errorf("open: %v", err)
	}
}

func TestDamagedFile(t *testing.T) {
	whole := t.TempDir()
	s := open(t, whole)
	fill(t, s, "c", 300)
	closeStore(t, s)
	good, err := os.ReadFile(dbPath(whole))
	if err != nil {
		t.Fatal(err)
	}
	garbage := func(b []byte, from, to int) []byte {
		b = append([]byte(nil), b...)
		for i := from; i < to; i++ {
			b[i] = 0xa5
		}
		return b
	}
	for name, data := range map[string][]byte{
		"text":       []byte(strings.Repeat("this is no database\n", 500)),
		"header":     garbage(good, 0, 100),
		"pages":      garbage(good, 100, len(good)),
		"cut":        good[:4096],
		"other junk": garbage(good, 4096, len(good)/2),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			copyKey(t, whole, dir)
			if err := os.WriteFile(dbPath(dir), data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openDir(t.Context(), dir)
			if err == nil { // the damage is where opening does not look
				_, err = s.Events().Read(t.Context(), "c", -1, 1000)
				closeStore(t, s)
			}
			if fault.CodeOf(err) != sqlstore.CodeCorrupt || !strings.Contains(fault.PublicText(err), "backup") {
				t.Errorf("error %v (public %q), want code %s", err, fault.PublicText(err), sqlstore.CodeCorrupt)
			}
		})
	}
}

func copyKey(t *testing.T, from, to string) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(from, vault.KeyFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, vault.KeyFile), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWrongKeyIsRefusedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir))
	if err := os.Remove(filepath.Join(dir, vault.KeyFile)); err != nil {
		t.Fatal(err)
	}
	_, err := openDir(t.Context(), dir)
	if fault.CodeOf(err) != sqlstore.CodeForeign {
		t.Errorf("open: %v, want code %s", err, sqlstore.CodeForeign)
	}
}

// TestSwappedBlobsAreNoticed moves sealed values between rows.
func TestSwappedBlobsAreNoticed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, id := range []string{"a", "b"} {
		fill(t, s, conversation.ID(id), 0)
		err := s.Accounts().UpdateSettings(t.Context(), id, func(*account.Settings) (*account.Settings, error) {
			return &account.Settings{LLMAPIKey: account.NewSecret("key of " + id)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		box := &store.Sandbox{ID: id, SessionKey: account.NewSecret("session " + id)}
		if err := s.Sandboxes().Save(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}
	db := raw(t, dir)
	execute(t, db, `UPDATE settings SET sealed = (SELECT sealed FROM settings WHERE user_id = 'a') WHERE user_id = 'b'`)
	execute(t, db, `UPDATE conversation_details SET options =
		(SELECT options FROM conversation_details WHERE conversation = 'a') WHERE conversation = 'b'`)
	execute(t, db, `UPDATE sandboxes SET key_sealed = (SELECT key_sealed FROM sandboxes WHERE id = 'a') WHERE id = 'b'`)
	_, settingsErr := s.Accounts().Settings(t.Context(), "b")
	_, optionsErr := s.Conversations().Get(t.Context(), "", "b")
	_, keyErr := s.Sandboxes().Get(t.Context(), "", "b")
	updateErr := s.Accounts().UpdateSettings(t.Context(), "b", func(*account.Settings) (*account.Settings, error) {
		return nil, fmt.Errorf("change was called")
	})
	for name, err := range map[string]error{"settings": settingsErr, "options": optionsErr, "session key": keyErr, "update": updateErr} {
		if fault.CodeOf(err) != vault.CodeUnseal {
			t.Errorf("%s: error %v, want code %s", name, err, vault.CodeUnseal)
		}
	}
	if _, err := s.Accounts().Settings(t.Context(), "a"); err != nil {
		t.Errorf("the other row: %v", err)
	}
}

func TestEventsAreAppendOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, "c", 3)
	db := raw(t, dir)
	for _, text := range []string{
		`UPDATE events SET raw = 'x' WHERE seq = 1`,
		`UPDATE events SET seq = 9 WHERE seq = 1`,
		`DELETE FROM events WHERE seq = 2`,
		`DELETE FROM events`,
	} {
		if _, err := db.Exec(text); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
	got, err := s.Events().Read(t.Context(), "c", -1, 10)
	if err != nil || len(got) != 3 || got[0].ID != "e0" {
		t.Errorf("%d events, %v", len(got), err)
	}
	if err := s.Conversations().Delete(t.Context(), "c"); err != nil {
		t.Errorf("deleting the whole conversation: %v", err)
	}
}

// TestNoSecretOnDisk looks for secrets in every file of the data directory.
func TestNoSecretOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	const secret = "sk-very-secret-value"
	err := s.Accounts().UpdateSettings(ctx, "u", func(*account.Settings) (*account.Settings, error) {
		return &account.Settings{LLMAPIKey: account.NewSecret(secret)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation.Conversation{ID: "c", Options: conversation.Options{LLM: account.LLM{APIKey: account.NewSecret(secret)}}}
	if err := s.Conversations().Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := s.Sandboxes().Save(ctx, &store.Sandbox{ID: "b", SessionKey: account.NewSecret(secret)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Accounts().PutUser(ctx, account.User{ID: "u"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Accounts().SetKeys(ctx, "u", "x", []account.KeyHash{account.HashKey(secret)}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "very-secret") {
			t.Errorf("%s holds the secret in clear", e.Name())
		}
	}
}

func TestEverythingIsThereAfterReopen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, "c", 1200)
	closeStore(t, s)
	again := open(t, dir)
	events, err := again.Events().Read(t.Context(), "c", -1, 5000)
	if err != nil || len(events) != 1200 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if string(events[1199].Raw) != string(event(1199).Raw) {
		t.Errorf("the last event came back as %s", events[1199].Raw)
	}
}

func TestReadOfCanceledContext(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s, "c", 2000)
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); cancel() }()
		events, err := s.Events().Read(ctx, "c", -1, 5000)
		<-done
		if err == nil && len(events) != 2000 {
			t.Fatalf("round %d: %d events without an error", i, len(events))
		}
		if err != nil && !fault.Is(err, fault.Canceled) {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	if _, err := s.Events().Read(t.Context(), "c", -1, 10); err != nil {
		t.Errorf("after cancels: %v", err)
	}
}

// TestPagesUseIndices: what a page costs must not depend on the log's length.
func TestPagesUseIndices(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	db := raw(t, dir)
	for _, text := range []string{
		`SELECT raw FROM events WHERE conversation = 'c' AND seq > 5 ORDER BY seq LIMIT 10`,
		`SELECT raw FROM events WHERE conversation = 'c' AND seq >= 0 AND seq < 9 ORDER BY seq DESC LIMIT 10`,
		`SELECT raw FROM events WHERE conversation = 'c' AND kind = 'k' AND seq >= 0 AND seq < 9 ORDER BY seq DESC LIMIT 10`,
		`SELECT id FROM conversations WHERE owner = 'u' AND parent_id = '' AND (created_at, id) < (5, 'x') ORDER BY created_at DESC, id DESC LIMIT 10`,
		`SELECT id FROM conversations WHERE owner = 'u' ORDER BY updated_at DESC, id DESC LIMIT 10`,
		`SELECT id FROM conversations WHERE status = 'running' AND (lease_holder = '' OR lease_until <= 5) ORDER BY id`,
		`SELECT id FROM start_tasks WHERE unfinished ORDER BY created_at, id`,
		`SELECT id FROM start_tasks WHERE conversation_id = 'c' ORDER BY created_at DESC, id DESC LIMIT 1`,
		`SELECT id FROM sandboxes WHERE key_hash = x'00'`,
		`SELECT reason FROM network_log WHERE sandbox_id = 'b' AND (began, id) < (5, 'x') ORDER BY began DESC, id DESC LIMIT 10`,
		`SELECT began, id FROM network_log WHERE sandbox_id = 'b' ORDER BY began DESC, id DESC LIMIT 1 OFFSET 9999`,
		`UPDATE network_log SET open = false WHERE open`,
		`DELETE FROM network_log WHERE sandbox_id = 'b'`,
		`SELECT id FROM conversations WHERE indexed < head ORDER BY id LIMIT 1`,
		`SELECT id FROM search_docs WHERE conversation = 'c' AND seq = -1`,
		`DELETE FROM search_docs WHERE conversation = 'c'`,
		`SELECT task FROM start_keys WHERE owner = 'u' AND name = 'n'`,
		`DELETE FROM start_keys WHERE conversation = 'c'`,
		`SELECT id FROM shares WHERE hash = x'00' AND expires_at > 5`,
		`SELECT id FROM shares WHERE conversation = 'c' AND owner = 'u' AND expires_at > 3 ORDER BY created_at DESC, id DESC`,
		`SELECT id FROM pending_messages WHERE conversation = 'c' ORDER BY seq`,
	} {
		rows, err := db.Query("EXPLAIN QUERY PLAN " + text)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var a, b, c int
			var detail string
			if err := rows.Scan(&a, &b, &c, &detail); err != nil {
				t.Fatal(err)
			}
			whole := strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, "USING")
			if whole || strings.Contains(detail, "TEMP B-TREE") {
				t.Errorf("%s\n\t%s", text, detail)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
