package policy

import (
	"slices"
	"strings"

	"parley/internal/lazyre"
)

// fileHandler returns what follows a command that changes files.
func fileHandler(name string) func(*command) data {
	switch name {
	case "rm", "unlink", "srm", "rimraf", "trash", "rmdir", "shred":
		return (*command).remove
	case "dd", "dcfldd":
		return (*command).dd
	case "cp", "mv", "install", "ln", "rsync", "scp":
		return (*command).copy
	case "chmod", "chown", "chgrp", "chattr", "setfacl":
		return (*command).mode
	case "truncate", "touch", "mkdir", "patch":
		return (*command).change
	case "tar", "bsdtar":
		return (*command).tar
	case "zip", "7z", "7za", "rar":
		return (*command).zip
	case "mkfifo":
		return (*command).pipe
	case "wipefs", "blkdiscard", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "hdparm", "nvme", "cryptsetup",
		"pvcreate", "pvremove", "vgremove", "lvremove", "badblocks", "diskutil", "zpool", "mdadm", "e2label", "tune2fs", "fsck":
		return (*command).disk
	}
	return nil
}

// remove is rm and its like.
func (c *command) remove() data {
	o := parseOptions(c.args, "-n -s --iterations --size")
	all := o.has("-r", "-R", "--recursive") || c.name == "rimraf" || c.name == "srm"
	if o.has("--no-preserve-root") {
		c.high(catastrophicDelete)
	}
	for _, f := range o.operands {
		all = all || f.text == hole && !f.has(fromFile) // $FLAGS
	}
	for _, f := range o.operands {
		c.removeOne(resolve(c.cwd(), f.text), f, all)
	}
	return data{}
}

func (c *command) removeOne(p string, f data, all bool) {
	switch {
	case isDisk(p):
		c.high(rawDisk)
	case isWhole(p) && all && c.name != "rmdir":
		c.high(catastrophicDelete)
	case isWhole(p):
		c.medium("deletes_much")
	case all && (isWorkspace(p) || inSystem.MatchString(p) || isExposed(p)):
		c.medium("deletes_much")
	case all && f.text == hole:
		c.medium("deletes_unknown")
	}
	judgePath(c.scan, p)
}

// isExposed reports whether a path would be one that must not be deleted if the
// part of it that is not known were empty.
func isExposed(p string) bool {
	if !strings.Contains(p, hole) {
		return false
	}
	return strings.HasPrefix(p, "/"+hole) || strings.HasPrefix(p, "~/"+hole) ||
		strings.HasPrefix(p, hole) && isWhole(resolve("", "/"+strings.TrimPrefix(strings.TrimPrefix(p, hole), "/")))
}

func (c *command) dd() data {
	out := c.in
	for _, a := range c.args {
		name, value, _ := strings.Cut(a.text, "=")
		p := resolve(c.cwd(), value)
		switch {
		case name == "if" && isDisk(p):
			c.medium("reads_disk")
			out = unknown(fromFile | fromSecret)
		case name == "if":
			out = c.read(value).lost()
		case name == "of" && value == hole:
			c.unclear("a file that is not known is overwritten")
		case name == "of":
			c.write(value, out, false)
			out = data{}
		}
	}
	return out
}

// format makes a file system: on a device that is the end of what was there, in a
// file of the workspace it is a file.
func (c *command) format() data {
	for _, f := range c.operands("-t -L -b -N -O -E -U -i -I -m -n -F -s -T") {
		if p := resolve(c.cwd(), f.text); strings.HasPrefix(p, "/dev/") || f.text == hole {
			c.high(rawDisk)
			return data{}
		}
	}
	c.medium("makes_file_system")
	return data{}
}

// harmlessDisk are uses of the disk tools that only show something.
var harmlessDisk = lazyre.MustCompile(`^\S+(?: (?:-l|--list|-n|--version|-V|--help|-h|list|info|status|luksDump|isLuks|print|-p|id-ctrl|smart-log|-I|-i|-t|-tT|--detail|-D|iostat|get|--scan|-N))+(?: |$)|^(?:parted|sfdisk|fdisk|mdadm|tune2fs).* (?:print|-l|--dump|-d)(?: |$)`)

func (c *command) disk() data {
	line := c.line()
	switch {
	case len(c.args) == 0 || harmlessDisk.MatchString(line):
	case strings.Contains(line, "/dev/") || c.name == "diskutil" || c.name == "zpool" || strings.HasPrefix(c.name, "vg") || strings.HasPrefix(c.name, "lv") || strings.Contains(line, hole):
		c.high(rawDisk)
	default:
		c.medium("makes_file_system")
	}
	return data{}
}

// copy is what writes its last operand, or the directory of -t.
func (c *command) copy() data {
	takes := "-t -S -m -o -g -e -i -P -F -l -c -J --target-directory --suffix --mode --owner --group --exclude --include --rsh --rsync-path --port --filter --backup-dir --max-size"
	if c.name == "rsync" {
		takes = strings.NewReplacer("-t ", "", "-S ", "", "-o ", "", "-g ", "", "-i ", "", "-P ", "", "-l ", "", "-c ", "", "-m ", "").Replace(takes)
	}
	o := parseOptions(c.args, takes)
	ops := o.operands
	into := o.values("-t", "--target-directory")
	if c.name == "rsync" {
		into = o.values("--target-directory")
	}
	for _, v := range o.values("-e", "--rsh", "--rsync-path") {
		c.child(v, nil, data{})
	}
	if len(into) == 0 && len(ops) > 1 {
		into, ops = ops[len(ops)-1:], ops[:len(ops)-1]
	}
	if len(into) == 0 {
		return data{}
	}
	c.copyTo(ops, into[0], o)
	return data{}
}

func (c *command) copyTo(sources []data, target data, o options) {
	to := resolve(c.cwd(), target.text)
	if isRemote(target.text) && (c.name == "rsync" || c.name == "scp") {
		c.medium("other_machine")
		for _, f := range sources {
			c.sends(c.read(f.text))
		}
		return
	}
	if o.has("--delete", "--delete-before", "--delete-after", "--delete-excluded") && isWhole(to) {
		c.high(catastrophicDelete)
	}
	for _, f := range sources {
		c.copyOne(f, to)
	}
}

func (c *command) copyOne(f data, to string) {
	from := resolve(c.cwd(), f.text)
	content := unknown(fromFile)
	if isRemote(f.text) && (c.name == "rsync" || c.name == "scp") {
		content = unknown(fromNet)
	} else if d, ok := c.files[from]; ok {
		content = d
	} else if c.name != "ln" {
		content = c.read(f.text)
	}
	if c.name == "mv" && (isWhole(from) || isDisk(from)) {
		c.high(catastrophicDelete)
	}
	if c.name == "mv" && isWorkspace(from) && to == "/dev/null" {
		c.medium("deletes_much")
	}
	if c.name == "mv" {
		judgePath(c.scan, from)
	}
	inside := strings.TrimSuffix(to, "/") + "/" + base(from)
	judgePath(c.scan, inside)
	c.write(to, content, false)
	if d, ok := c.files[from]; ok && len(c.files) < maxFields {
		c.files[resolve("", inside)] = d
	}
}

// isRemote reports whether a file is on another machine, as host:path.
func isRemote(f string) bool {
	host, _, ok := strings.Cut(f, ":")
	return ok && host != "" && !strings.Contains(host, "/") || strings.HasPrefix(f, "rsync://") || strings.HasPrefix(f, "scp://")
}

// mode is chmod and its like.
func (c *command) mode() data {
	ops := c.operands("-s -m -M -x --from --reference")
	if len(ops) > 0 && c.name != "setfacl" {
		what := ops[0].text
		if (c.name == "chmod") && setsID.MatchString(what) {
			c.high("sets_id")
		}
		if c.name == "chattr" || c.name == "chmod" && strings.HasSuffix(what, "777") {
			c.medium("opens_files")
		}
		ops = ops[1:]
	}
	if slices.ContainsFunc(c.args, func(d data) bool { return strings.HasPrefix(d.text, "+") || strings.HasPrefix(d.text, "-x") }) && c.name == "chmod" {
		ops = c.operands("")
	}
	all := parseOptions(c.args, "").has("-R", "--recursive")
	for _, f := range ops {
		p := resolve(c.cwd(), f.text)
		switch {
		case all && isWhole(p):
			c.high("changes_system_modes")
		case isDisk(p):
			c.high(rawDisk)
		case inSystem.MatchString(p):
			c.medium("changes_system_modes")
			c.sensitiveMode(p)
		}
	}
	return data{}
}

var setsID = lazyre.MustCompile(`^(?:[ugoa,]*[+=][rwxXt]*s|0?[4-7][0-7]{3}$)`)

func (c *command) sensitiveMode(p string) {
	if regexpShadow.MatchString(p) {
		c.high("writes_system_file")
	}
}

var regexpShadow = lazyre.MustCompile(`^/etc/(?:g?shadow|passwd|sudoers)`)

// change is what changes the files that it names.
func (c *command) change() data {
	if c.name == "mkdir" || c.name == "touch" {
		return data{}
	}
	for _, f := range c.operands("-s -p -i -d -o --size --strip --input --directory") {
		judgePath(c.scan, resolve(c.cwd(), f.text))
	}
	return data{}
}

func (c *command) tar() data {
	args := c.args
	if len(args) > 0 && !strings.HasPrefix(args[0].text, "-") {
		args = slices.Clone(args)
		args[0].text = "-" + args[0].text // tar xzf
	}
	o := parseOptions(args, "-f -C -T -X -I --file --directory --checkpoint-action --to-command --use-compress-program --exclude --transform --rsh-command")
	for _, v := range o.values("--checkpoint-action", "--to-command", "--use-compress-program", "-I", "--rsh-command") {
		c.medium("runs_per_file")
		c.child(data{strings.TrimPrefix(v.text, "exec="), v.from}, nil, data{})
	}
	if o.has("-x", "--extract") {
		for _, v := range o.values("-C", "--directory") {
			c.into(v)
		}
		return c.in.lost()
	}
	var out data
	for _, f := range o.operands {
		out = out.then(c.read(f.text))
	}
	if files := o.values("-f", "--file"); len(files) > 0 && files[0].text != "-" {
		c.write(files[0].text, out.lost(), false)
		return data{}
	}
	return out.lost()
}

// zip puts files into an archive: its first operand, after 7z's letter.
func (c *command) zip() data {
	ops := c.operands("-P -b -t -x")
	if c.name != "zip" && len(ops) > 0 {
		ops = ops[1:]
	}
	if len(ops) == 0 {
		return data{}
	}
	var packed data
	for _, f := range ops[1:] {
		packed = packed.then(c.read(f.text))
	}
	c.write(ops[0].text, packed.lost(), false)
	return data{}
}

// pipe makes a pipe with a name: what comes out of it may be from anywhere.
func (c *command) pipe() data {
	for _, f := range c.operands("-m") {
		c.write(f.text, unknown(fromNet), false)
	}
	return data{}
}

// into judges that an archive is unpacked into a directory.
func (c *command) into(dir data) {
	p := resolve(c.cwd(), dir.text)
	if p == "/" || inSystem.MatchString(p+"/") || p == "~" {
		c.medium("writes_system_file")
	}
}

// findFiles runs commands for files, or deletes them.
func (c *command) findFiles() data {
	roots, tests := c.findParts()
	narrow := isNarrow(tests)
	for i, t := range tests {
		switch t.text {
		case "-delete":
			c.deletesBelow(roots, narrow)
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			c.findExec(roots, tests[i+1:], narrow)
		case "-fprint", "-fprintf", "-fls":
			if i+1 < len(tests) {
				c.write(tests[i+1].text, unknown(fromFile), false)
			}
		}
	}
	var out data
	for _, r := range roots {
		out = out.then(data{strings.TrimSuffix(resolve(c.cwd(), r.text), "/") + "/" + hole + "\n", r.from | fromFile})
	}
	return out
}

func (c *command) findParts() (roots, tests []data) {
	if c.name != "find" {
		return nil, c.args
	}
	args := c.args
	for len(args) > 0 && (args[0].text == "-L" || args[0].text == "-P" || args[0].text == "-H") {
		args = args[1:]
	}
	i := slices.IndexFunc(args, func(d data) bool { return strings.HasPrefix(d.text, "-") || d.text == "(" || d.text == "!" })
	if i < 0 {
		i = len(args)
	}
	roots = args[:i]
	if len(roots) == 0 {
		roots = []data{known(".")}
	}
	return roots, args[i:]
}

// isNarrow reports whether tests leave most files out.
func isNarrow(tests []data) bool {
	for i, t := range tests {
		switch t.text {
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex":
			if i+1 < len(tests) && strings.Trim(tests[i+1].text, "*./?") != "" {
				return true
			}
		case "-empty", "-mtime", "-mmin", "-atime", "-ctime", "-newer", "-size", "-inum", "-samefile", "-xtype", "-perm":
			return true
		}
	}
	return false
}

func (c *command) deletesBelow(roots []data, narrow bool) {
	for _, r := range roots {
		p := resolve(c.cwd(), r.text)
		switch {
		case isWhole(p) && !narrow:
			c.high(catastrophicDelete)
		case isWhole(p) || (isWorkspace(p) || inSystem.MatchString(p)) && !narrow:
			c.medium("deletes_much")
		}
	}
}

// findExec runs the command of -exec with the places that are searched as the file.
func (c *command) findExec(roots, argv []data, narrow bool) {
	end := slices.IndexFunc(argv, func(d data) bool { return d.text == ";" || d.text == "+" })
	if end < 0 {
		end = len(argv)
	}
	argv = argv[:end]
	if len(argv) == 0 {
		return
	}
	if i := indexText(argv, "rm", "shred", "unlink"); i == 0 {
		c.deletesBelow(roots, narrow)
	}
	lines := data{hole + "\n", fromFile}
	for _, r := range roots {
		lines = lines.then(data{strings.TrimSuffix(resolve(c.cwd(), r.text), "/") + "/" + hole + "\n", r.from | fromFile})
	}
	c.each(argv, "{}", lines)
}
