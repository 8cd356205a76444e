package extension

import (
	"path"
	"slices"
	"strings"

	"parley/internal/fault"
	"parley/internal/skill"
)

// Bounds of the files that come along with skills.
const (
	maxContent       = 1 << 20  // bytes of a file
	maxSkillContents = 4 << 20  // bytes of a skill
	maxSkillFiles    = 200      // of a skill
	maxContents      = 16 << 20 // bytes of a place, or of a collection with its plugins
	maxContentFiles  = 2000     // of those
)

// room is what is left for the files of skills.
type room struct {
	files int
	bytes int64
}

func (r *room) take(bytes int) {
	r.files--
	r.bytes -= int64(bytes)
}

// contents takes the files of all AgentSkills along. It comes last, so that a skill
// that another one took the place of needs no room.
func (l *loader) contents() {
	for i := range l.b.Skills {
		s := &l.b.Skills[i]
		if !l.opt.Contents || !s.AgentSkill {
			continue
		}
		s.Files = l.filesOf(l.mains[s.Name])
		s.Resources = slices.DeleteFunc(s.Resources, func(name string) bool {
			return !slices.ContainsFunc(s.Files, func(f skill.File) bool { return f.Name == name })
		})
	}
}

// filesOf reads the files of the directory of a SKILL.md. That is the last of them, but
// has its room before the others.
func (l *loader) filesOf(main string) []skill.File {
	home := path.Dir(main)
	names := slices.DeleteFunc(l.list(home, maxDepth, maxListed), func(name string) bool {
		return name == main || strings.Contains("/"+name, "/.git/")
	})
	names = slices.Insert(names, 0, main)
	own := room{files: maxSkillFiles, bytes: maxSkillContents}
	var files []skill.File
	for _, name := range names {
		if l.err != nil {
			return nil
		}
		if own.files == 0 || l.room.files == 0 {
			l.problem(name, 0, "This file of a skill and what comes after it is left out: one skill may have %d files, and all of a collection %d.", maxSkillFiles, maxContentFiles)
			break
		}
		f, ok := l.content(home, name, min(maxContent, own.bytes, l.room.bytes))
		if ok {
			own.take(len(f.Data))
			l.room.take(len(f.Data))
			files = append(files, f)
		}
	}
	if len(files) > 0 {
		files = append(files[1:], files[0])
	}
	return files
}

// content reads one file of a skill.
func (l *loader) content(home, name string, limit int64) (skill.File, bool) {
	place := path.Join(l.opt.Dir, name)
	data, err := l.t.Read(l.ctx, place, limit)
	switch {
	case fault.Is(err, fault.TooLarge):
		l.problem(name, 0, "This file of a skill is left out: one may have %d MiB, all of a skill %d MiB, and all of a collection %d MiB.",
			maxContent>>20, maxSkillContents>>20, maxContents>>20)
		return skill.File{}, false
	case err != nil:
		l.refused(name, err)
		return skill.File{}, false
	}
	modes, ok := l.t.(ModeTree)
	return skill.File{Name: strings.TrimPrefix(name, home+"/"), Data: data, Executable: ok && modes.Executable(place)}, true
}
