package cgroup

// OpenAt opens groups below faked hierarchies.
func OpenAt(mountinfo, selfCgroup string, pid int) *Manager {
	return open(parseLayout(mountinfo, selfCgroup), pid)
}

// Parse returns the own directory per hierarchy.
func Parse(mountinfo, selfCgroup string) map[string]string {
	return parseLayout(mountinfo, selfCgroup).own
}
