package hostbox

// ParseStat reads the state, the parent and the start of proc_pid_stat(5).
func ParseStat(data []byte) (byte, int, uint64, error) {
	st, err := parseStat(data)
	return st.state, st.ppid, st.start, err
}
