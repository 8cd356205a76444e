package collection

import (
	"context"
	"encoding/json"
	"fmt"

	"parley/internal/extension"
	"parley/internal/fault"
)

// maxLoaded bounds what one collection brings, in bytes as it is stored: it is kept in
// memory. What the loader takes along of files is at most two thirds of it, in base64.
const maxLoaded = 32 << 20

// title is what people read of a source.
func (s Source) title() string { return "collection " + s.Name }

// load reads a collection. Nothing of it is ever run by itself, so there is nothing to
// trust. Its files are in no sandbox, so its skills have no directory yet, but Files.
func load(ctx context.Context, tree extension.ModeTree, s Source, commit string) ([]extension.Bundle, error) {
	bundles, err := extension.LoadCollection(ctx, tree, extension.Options{Name: s.title(), Level: s.Level, Commit: commit, Contents: true})
	if err != nil {
		return nil, err
	}
	for i := range bundles {
		bundles[i] = extension.Strip(bundles[i])
		for j := range bundles[i].Skills {
			bundles[i].Skills[j].Root = ""
		}
	}
	return fitting(bundles, s)
}

// fitting drops plugins that are too much. TooLarge if the collection itself is.
func fitting(bundles []extension.Bundle, s Source) ([]extension.Bundle, error) {
	size, kept := 0, bundles[:0]
	for _, b := range bundles {
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		size += len(raw)
		switch {
		case size <= maxLoaded:
			kept = append(kept, b)
		case len(kept) == 0:
			return nil, fault.New(fault.TooLarge, codeTooLarge, "The skills and agents of collection %s are larger than %d MiB together with their files.", s.Name, maxLoaded>>20).
				WithHint("Split it into several collections.")
		default:
			text := fmt.Sprintf("%s and what comes after it is left out: the collection is larger than %d MiB.", b.Name, maxLoaded>>20)
			kept[0].Problems = append(kept[0].Problems, extension.Problem{File: ".", Text: text})
			return kept, nil
		}
	}
	return kept, nil
}

// loadDir reads a directory of this machine.
func loadDir(ctx context.Context, one *source) ([]extension.Bundle, error) {
	dir, err := extension.DirTree(one.at.dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.KindOf(err), codeRead, "The directory %q cannot be read.", one.at.dir).
			WithHint("Look whether it is there and open to the server.")
	}
	defer func() { _ = dir.Close() }()
	return load(ctx, dir, one.Source, "")
}
