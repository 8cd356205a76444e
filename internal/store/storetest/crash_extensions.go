package storetest

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/skill"
	"parley/internal/store"
)

const extenders = 3

func crashOwner(worker int) string { return fmt.Sprint("extended-", worker) }

// ExtendForever is the body of a process that gets killed: it saves bundles,
// decisions, skills and credentials again and again, each time with the next
// number, and writes a line "worker number" for each that the store acknowledged.
// It returns only on an error.
func ExtendForever(ctx context.Context, s store.Store, out io.Writer) error {
	failed := make(chan error, extenders)
	var mu sync.Mutex
	for w := range extenders {
		go func() {
			failed <- extendOnAndOn(ctx, s, w, func(n int) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := fmt.Fprintf(out, "%d %d\n", w, n)
				return err
			})
		}()
	}
	return <-failed
}

func extendOnAndOn(ctx context.Context, s store.Store, worker int, acknowledge func(n int) error) error {
	owner := crashOwner(worker)
	err := s.Conversations().Create(ctx, &conversation.Conversation{ID: conversation.ID(owner), Owner: owner})
	if err != nil && fault.CodeOf(err) != store.CodeExists {
		return err
	}
	first, _, err := extended(ctx, s, worker)
	if err != nil {
		return err
	}
	for n := first + 1; ; n++ {
		if err := extendOnce(ctx, s, owner, n); err != nil {
			return err
		}
		if err := acknowledge(n); err != nil {
			return err
		}
	}
}

// extendOnce leaves the number n everywhere; the bundles have it last.
func extendOnce(ctx context.Context, s store.Store, owner string, n int) error {
	x, text := s.Extensions(), fmt.Sprint(n)
	if err := x.PutCredential(ctx, owner, "c", account.NewSecret(text)); err != nil {
		return err
	}
	if err := x.PutSkill(ctx, owner, store.UserSkill{Name: "s", Content: text}); err != nil {
		return err
	}
	if err := x.Decide(ctx, owner, extension.Decision{Subject: "d", Hash: text, At: at(n)}); err != nil {
		return err
	}
	bundle := extension.Bundle{Name: text, Level: skill.LevelPlugin, Servers: fullServers(text)}
	return x.SaveBundles(ctx, conversation.ID(owner), []extension.Bundle{bundle, bundle})
}

// extended returns the number of the bundles, and the least of the other places.
func extended(ctx context.Context, s store.Store, worker int) (bundled, least int, err error) {
	owner := crashOwner(worker)
	bundles, err := s.Extensions().Bundles(ctx, conversation.ID(owner))
	if err != nil || len(bundles) == 0 {
		return 0, 0, err
	}
	if len(bundles) != 2 || bundles[1].Name != bundles[0].Name || bundles[1].Servers.SSE[0].APIKey.Reveal() != bundles[0].Name+"sse" {
		return 0, 0, fmt.Errorf("bundles of several saves: %v", bundles)
	}
	value, err := s.Extensions().Credential(ctx, owner, "c")
	if err != nil {
		return 0, 0, err
	}
	skills, err := s.Extensions().Skills(ctx, owner)
	if err != nil {
		return 0, 0, err
	}
	decisions, err := s.Extensions().Decisions(ctx, owner)
	if err != nil {
		return 0, 0, err
	}
	numbers := [4]int{}
	_, err = fmt.Sscan(fmt.Sprintln(bundles[0].Name, value.Reveal(), skills[0].Content, decisions[0].Hash),
		&numbers[0], &numbers[1], &numbers[2], &numbers[3])
	return numbers[0], min(numbers[1], numbers[2], numbers[3]), err
}

// KillAndCheckExtensions is KillAndCheck for a process that runs ExtendForever:
// what it acknowledged is there, and the bundles are those of one save.
func KillAndCheckExtensions(t *testing.T, child func() *exec.Cmd, open func() store.Store) {
	killRounds(t, child, open, func(s store.Store, acknowledged map[int]int64) {
		for worker, n := range acknowledged {
			bundled, least, err := extended(t.Context(), s, worker)
			if err != nil || bundled < int(n) || least < bundled {
				t.Errorf("worker %d: %d was acknowledged, the bundles are of %d, the rest of %d (%v)", worker, n, bundled, least, err)
			}
		}
	})
}
