// The MCP server of package mcpserver. It speaks over standard input and output, ends
// with its input, and tells in a file that it was started.
//
//	mcpserver [-log FILE] [-tools NAME,...] [-show VARIABLE,...] [-mode MODE]
//
// Its tools behave as those of package mcptest: info answers with the variables of
// the environment that -show names, slow never answers, any other echoes.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"parley/internal/tool/mcp/mcptest"
)

func main() {
	log := flag.String("log", "", "file to which each start adds a line: the process id and what the tool info shows")
	tools := flag.String("tools", "", "names of the tools; those of package mcptest if there are none")
	show := flag.String("show", "", "variables that the tool info shows")
	mode := flag.String("mode", mcptest.Fine, "of package mcptest")
	flag.Parse()
	s := mcptest.Server{Mode: *mode, Info: map[string]string{}, Die: os.Exit}
	if *tools != "" {
		s.Tools = strings.Split(*tools, ",")
	}
	for _, name := range strings.Split(*show, ",") {
		if value, ok := os.LookupEnv(name); ok {
			s.Info[name] = value
		}
	}
	if err := note(*log, s.Info); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Serve(os.Stdin, os.Stdout)
}

// note adds the line.
func note(file string, shown map[string]string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid(), shown)
	if end := f.Close(); err == nil {
		err = end
	}
	return err
}
