package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/skill"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/store/storetest"
	"parley/internal/vault"
)

func childExtend(dir string) error {
	s, err := openDir(context.Background(), dir)
	if err != nil {
		return err
	}
	return storetest.ExtendForever(context.Background(), s, os.Stdout)
}

func TestKilledProcessKeepsExtensions(t *testing.T) {
	dir := t.TempDir()
	storetest.KillAndCheckExtensions(t, func() *exec.Cmd { return child(t, "extend", dir) }, func() store.Store {
		s, err := openDir(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// extend keeps one of everything for an owner with a conversation of the same name.
func extend(ctx context.Context, s *sqlstore.Store, owner, secret string, size int) error {
	x, big := s.Extensions(), strings.Repeat("x", size)
	servers := &account.MCPConfig{Stdio: []account.MCPStdioServer{{Name: "s", Env: map[string]account.Secret{"KEY": account.NewSecret(secret)}}}}
	for _, f := range []func() error{
		func() error {
			return x.SaveBundles(ctx, conversation.ID(owner), []extension.Bundle{{Name: big, Servers: servers,
				Skills: []skill.Skill{{Name: "k", MCP: servers}}}})
		},
		func() error {
			return x.PutCredential(ctx, owner, "n", account.NewSecret(secret+big))
		},
		func() error { return x.PutSkill(ctx, owner, store.UserSkill{Name: "s", Content: big}) },
		func() error {
			return x.Decide(ctx, owner, extension.Decision{Subject: "d" + big, Trusted: true, At: time.UnixMicro(1)})
		},
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func TestExtensionsAreSealedAndBoundToTheirRow(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	for _, id := range []string{"a", "b"} {
		fill(t, s, conversation.ID(id), 0)
		if err := extend(ctx, s, id, "very-secret-of-"+id, 10); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, name := range entries {
		if data, err := os.ReadFile(name); err != nil || strings.Contains(string(data), "very-secret") {
			t.Errorf("%s holds a secret in clear (%v)", name, err)
		}
	}
	db := raw(t, dir)
	execute(t, db, `UPDATE bundles SET sealed = (SELECT sealed FROM bundles WHERE conversation = 'a') WHERE conversation = 'b'`)
	execute(t, db, `UPDATE credentials SET sealed = (SELECT sealed FROM credentials WHERE owner = 'a') WHERE owner = 'b'`)
	_, bundlesErr := s.Extensions().Bundles(ctx, "b")
	_, credentialErr := s.Extensions().Credential(ctx, "b", "n")
	execute(t, db, `UPDATE credentials SET name = 'other' WHERE owner = 'a'`)
	_, renamedErr := s.Extensions().Credential(ctx, "a", "other")
	for name, err := range map[string]error{"bundles": bundlesErr, "credential": credentialErr, "renamed credential": renamedErr} {
		if fault.CodeOf(err) != vault.CodeUnseal {
			t.Errorf("%s: error %v, want code %s", name, err, vault.CodeUnseal)
		}
	}
	if got, err := s.Extensions().Bundles(ctx, "a"); err != nil || got[0].Skills[0].MCP.Stdio[0].Env["KEY"].Reveal() != "very-secret-of-a" {
		t.Errorf("the other row: %v, %v", got, err)
	}
}

const brokenOwner = "extended"

// extendRefused stores what the disk has no room for: nothing of it may be there.
func extendRefused(ctx context.Context, s *sqlstore.Store, code string) error {
	const size = 4 << 20
	x := s.Extensions()
	big := strings.Repeat("x", size)
	for name, err := range map[string]error{
		"bundles":    x.SaveBundles(ctx, "c", []extension.Bundle{{Name: big}}),
		"decision":   x.Decide(ctx, brokenOwner, extension.Decision{Subject: big}),
		"skill":      x.PutSkill(ctx, brokenOwner, store.UserSkill{Name: "s", Content: big}),
		"credential": x.PutCredential(ctx, brokenOwner, "n", account.NewSecret(big)),
	} {
		if fault.CodeOf(err) != code {
			return fmt.Errorf("%s on a bad disk: %w, want code %s", name, err, code)
		}
	}
	bundles, err1 := x.Bundles(ctx, "c")
	decisions, err2 := x.Decisions(ctx, brokenOwner)
	skills, err3 := x.Skills(ctx, brokenOwner)
	_, err4 := x.Credential(ctx, brokenOwner, "n")
	if err1 != nil || err2 != nil || err3 != nil || len(bundles)+len(decisions)+len(skills) > 0 || !fault.Is(err4, fault.NotFound) {
		return fmt.Errorf("something refused is visible: %d bundles, %d decisions, %d skills (%w, %w, %w, %w)",
			len(bundles), len(decisions), len(skills), err1, err2, err3, err4)
	}
	return nil
}
