package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/store/storetest"
)

var ledgerDay = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func childSpend(dir string) error {
	s, err := openDir(context.Background(), dir)
	if err != nil {
		return err
	}
	return storetest.SpendForever(context.Background(), s, os.Stdout)
}

func TestKilledProcessAccountsForEveryCall(t *testing.T) {
	dir := t.TempDir()
	storetest.KillAndCount(t, func() *exec.Cmd { return child(t, "spend", dir) }, func() store.Store {
		s, err := openDir(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestUpgradeKeepsWhatWasSpent opens a database of the schema before the ledger.
func TestUpgradeKeepsWhatWasSpent(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir)) // makes the key
	if err := os.Remove(dbPath(dir)); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	upTo(t, db, 1)
	for _, c := range [][3]string{
		{"root", "", `{"accumulated_cost":1.5,"accumulated_token_usage":{"prompt_tokens":100,"completion_tokens":10}}`},
		{"sub", "root", `{"accumulated_cost":0.25,"accumulated_token_usage":{"prompt_tokens":5}}`},
		{"between", "root", `{"accumulated_cost":0}`},
		{"deep", "between", `{"accumulated_cost":0.000000001,"accumulated_token_usage":null}`},
		{"child of none", "missing", `{"accumulated_cost":2}`},
		{"circle", "circle", `{"accumulated_cost":3}`},
		{"broken", "", `{`},
		{"absurd", "", `{"accumulated_cost":1e300}`},
		{"idle", "", `{}`},
	} {
		execute(t, db, `INSERT INTO conversations VALUES ($1, 'u', '', '', '', 0, '', $2, '', '', '', '', '', '', '', NULL, '', 'idle',
			0, $3, '', 0, 0, 0, 0, 0, '', 1)`, c[0], c[1], c[2])
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	usd := conversation.USD
	for id, want := range map[conversation.ID]store.Spending{
		"root":          {Cost: usd*7/4 + 1, PromptTokens: 105, CompletionTokens: 10},
		"sub":           {Cost: usd / 4, PromptTokens: 5},
		"between":       {Cost: 1},
		"deep":          {Cost: 1},
		"child of none": {Cost: 2 * usd},
		"missing":       {Cost: 2 * usd},
		"circle":        {Cost: 3 * usd},
		"broken":        {},
		"absurd":        {Cost: 9e6 * usd},
		"idle":          {},
	} {
		own, tree, err := s.Ledger().Conversation(t.Context(), id)
		if err != nil || tree != want {
			t.Errorf("%s: %+v, %v, want %+v", id, tree, err, want)
		}
		if id == "root" && own[store.UseAgent].Cost != usd*3/2 {
			t.Errorf("root alone: %+v", own)
		}
	}
	limit := 2 * usd
	err := s.Ledger().Reserve(t.Context(), store.Reservation{ID: "r", Conversation: "deep", Owner: "u", Amount: usd / 4,
		Now: ledgerDay, Ceilings: store.Ceilings{Tree: &limit}})
	var full *store.BudgetError
	if !errors.As(err, &full) || full.Spent != int64(usd*7/4+1) {
		t.Errorf("what was spent before does not count: %v", err)
	}
}

// upTo makes the schema of an older version.
func upTo(t *testing.T, db *sql.DB, version int64) {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS(filepath.Join("migrations", "sqlite")), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

// TestUpgradeOfDataInUse: what another version wrote is all there.
func TestUpgradeOfDataInUse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, "c", 100)
	closeStore(t, s)
	db := raw(t, dir)
	for _, table := range []string{"spend_accounts", "spend_days", "spend_day_uses", "spend_uses", "spend_reservations",
		"bundles", "decisions", "user_skills", "credentials", "network_log", "command_events", "saved_places"} {
		execute(t, db, `DROP TABLE `+table)
	}
	for _, table := range []string{"webhook_endpoints", "webhook_cursors", "webhook_deliveries"} {
		execute(t, db, `DROP TABLE `+table)
	}
	for _, table := range []string{"experiments", "replays", "imports", "imported_events"} {
		execute(t, db, `DROP TABLE `+table)
	}
	for _, table := range []string{"pending_messages", "start_keys", "shares", "search_docs", "search_text"} {
		execute(t, db, `DROP TABLE `+table)
	}
	execute(t, db, `DROP INDEX conversations_to_index`)
	execute(t, db, `ALTER TABLE conversations DROP COLUMN indexed`)
	for _, column := range []string{"forked_from", "forked_at"} {
		execute(t, db, `ALTER TABLE conversation_details DROP COLUMN `+column)
	}
	execute(t, db, `ALTER TABLE conversations DROP COLUMN progress`)
	execute(t, db, `ALTER TABLE sandboxes DROP COLUMN wanted`)
	execute(t, db, `DELETE FROM goose_db_version WHERE version_id > 1`)
	s = open(t, dir)
	events, err := s.Events().Read(t.Context(), "c", -1, 1000)
	if err != nil || len(events) != 100 {
		t.Errorf("%d events, %v", len(events), err)
	}
	if err := s.Ledger().Reserve(t.Context(), store.Reservation{ID: "r", Conversation: "c", Owner: "u", Amount: 5, Now: ledgerDay}); err != nil {
		t.Error(err)
	}
	if got, err := s.Extensions().Bundles(t.Context(), "c"); err != nil || len(got) != 0 {
		t.Errorf("bundles of an old conversation: %v, %v", got, err)
	}
	if err := extend(t.Context(), s, "c", "secret", 1); err != nil {
		t.Error(err)
	}
}

// TestLedgerLeavesNoRows: tables stay as small as what they are about.
func TestLedgerLeavesNoRows(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	fill(t, s, "root", 0)
	for i := range 20 {
		id := conversation.ID(fmt.Sprint("c", i))
		parent := conversation.ID("root")
		if i > 0 {
			parent = conversation.ID(fmt.Sprint("c", i-1))
		}
		if err := s.Conversations().Create(ctx, &conversation.Conversation{ID: id, Owner: "u", ParentID: parent}); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			spendOnce(t, s, fmt.Sprint(id, n), id)
		}
	}
	db := raw(t, dir)
	wantRows(t, db, "spend_reservations", 0)
	wantRows(t, db, "spend_accounts", 21)
	wantRows(t, db, "spend_uses", 20)
	for _, first := range []string{"root", "c5", "c3"} { // the top first
		if err := s.Conversations().Delete(ctx, conversation.ID(first)); err != nil {
			t.Fatal(err)
		}
	}
	wantRows(t, db, "spend_accounts", 21)
	for i := range 20 {
		if err := s.Conversations().Delete(ctx, conversation.ID(fmt.Sprint("c", i))); err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
	}
	wantRows(t, db, "spend_accounts", 0)
	wantRows(t, db, "spend_uses", 0)
	wantRows(t, db, "spend_days", 1)
	wantRows(t, db, "spend_day_uses", 1)
}

func spendOnce(t testing.TB, s *sqlstore.Store, reservation string, id conversation.ID) {
	t.Helper()
	r := store.Reservation{ID: reservation, Conversation: id, Owner: "u", Use: store.UseAgent, Amount: 9, Now: ledgerDay}
	if err := s.Ledger().Reserve(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := s.Ledger().Settle(t.Context(), store.Settlement{Reservation: reservation, Cost: 5}); err != nil {
		t.Fatal(err)
	}
}

func wantRows(t *testing.T, db *sql.DB, table string, want int) {
	t.Helper()
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil || n != want {
		t.Errorf("%s has %d rows (%v), want %d", table, n, err, want)
	}
}

// TestLedgerUsesIndices: a reservation must not cost more in a large ledger.
func TestLedgerUsesIndices(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	db := raw(t, dir)
	for _, text := range []string{
		`SELECT cost FROM spend_accounts WHERE conversation = 'c'`,
		`SELECT 1 FROM spend_accounts WHERE parent <> '' AND parent = 'c'`,
		`SELECT 1 FROM conversations WHERE parent_id <> '' AND parent_id = 'c'`,
		`SELECT 1 FROM spend_reservations WHERE conversation <> '' AND conversation = 'c'`,
		`SELECT 1 FROM spend_reservations WHERE holder IN ('a', 'b')`,
		`SELECT cost FROM spend_days WHERE owner = 'u' AND day = 'd'`,
		`SELECT use, cost FROM spend_uses WHERE conversation = 'c'`,
		`SELECT day, use, model, cost FROM spend_day_uses WHERE owner = 'u' AND day >= 'd' AND day <= 'e' ORDER BY day, use, model`,
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
			if !strings.HasPrefix(detail, "SEARCH") {
				t.Errorf("%s\n\t%s", text, detail)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// spendUntil makes calls until code appears. What the store refused must not be
// there: neither a reservation nor a settlement.
func spendUntil(ctx context.Context, s *sqlstore.Store, code string) error {
	reserved, settled := int64(0), int64(0)
	for n := range 100_000 {
		id := fmt.Sprint(code, n, strings.Repeat("x", 20_000))
		err := s.Ledger().Reserve(ctx, store.Reservation{ID: id, Owner: code, Amount: 3, Now: ledgerDay})
		if err == nil {
			reserved++
			if n%2 == 0 {
				continue
			}
			err = s.Ledger().Settle(ctx, store.Settlement{Reservation: id, Cost: 2})
		}
		if err == nil {
			settled++
			continue
		}
		if fault.CodeOf(err) != code || !fault.Is(err, fault.Unavailable) {
			return fmt.Errorf("ledger on a bad disk: %w, want code %s", err, code)
		}
		return checkSpent(ctx, s, code, reserved, settled)
	}
	return errors.New("the disk never failed")
}

// checkSpent compares the sums of a day with what was acknowledged. They are
// read through a look that must be refused, so it works on a full disk, too.
func checkSpent(ctx context.Context, s *sqlstore.Store, owner string, reserved, settled int64) error {
	rows, err := s.Ledger().Days(ctx, owner, "", "9999")
	if err != nil {
		return err
	}
	var cost conversation.Money
	for _, r := range rows {
		cost += r.Cost
	}
	if int64(cost) != 2*settled {
		return fmt.Errorf("%d settlements were acknowledged, %d is spent", settled, cost)
	}
	none := conversation.Money(0)
	err = s.Ledger().Reserve(ctx, store.Reservation{ID: "look", Owner: owner, Amount: 1, Now: ledgerDay, Ceilings: store.Ceilings{Day: &none}})
	var full *store.BudgetError
	if !errors.As(err, &full) || full.Held != 3*(reserved-settled) {
		return fmt.Errorf("%d reservations and %d settlements were acknowledged: %w", reserved, settled, err)
	}
	return nil
}

// BenchmarkLedger measures what money adds to a model call.
func BenchmarkLedger(b *testing.B) {
	for _, depth := range []int{1, 4} {
		b.Run(fmt.Sprint("depth=", depth), func(b *testing.B) {
			s := open(b, b.TempDir())
			parent := conversation.ID("")
			for i := range depth {
				id := conversation.ID(fmt.Sprint("c", i))
				if err := s.Conversations().Create(b.Context(), &conversation.Conversation{ID: id, Owner: "u", ParentID: parent}); err != nil {
					b.Fatal(err)
				}
				parent = id
			}
			n := 0
			for b.Loop() {
				n++
				spendOnce(b, s, fmt.Sprint(n), parent)
			}
		})
	}
}
