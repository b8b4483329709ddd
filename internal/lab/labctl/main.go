// Command labctl starts Ceph, PostgreSQL and ZooKeeper on this machine for a
// person, as the tests do, and stops them: labctl up COMPONENT…, labctl down.
// Make calls it (lab-up, lab-down, run).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"seedbed/internal/lab"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "labctl:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("labctl", flag.ContinueOnError)
	record := flags.String("record", filepath.Join(".cache", "lab", "record.json"), "`file` that says what was started")
	config := flags.String("config", "", "`file` of a configuration that the sections are appended to")
	if len(args) == 0 {
		return errors.New("expected up COMPONENT…, or down")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("this starts and stops servers as root and as the user postgres: run it as root")
	}
	k, err := lab.OpenKeeper(*record)
	if err != nil {
		return err
	}
	defer k.Close()
	go abandon(k)
	switch {
	case args[0] == "up" && flags.NArg() > 0:
		return up(k, flags.Args(), *config, out)
	case args[0] == "down" && flags.NArg() == 0:
		return down(k, out)
	}
	return fmt.Errorf("%s %v is nothing labctl does: expected up COMPONENT…, or down", args[0], flags.Args())
}

// abandon takes away what is half started when the program is told to end.
func abandon(k *lab.Keeper) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	<-told
	if err := k.Abandon(); err != nil {
		fmt.Fprintln(os.Stderr, "labctl:", err)
	}
	os.Exit(130)
}

func up(k *lab.Keeper, names []string, config string, out io.Writer) error {
	for _, name := range names {
		if err := k.Up(name); err != nil {
			return err
		}
	}
	sections := ""
	for _, c := range k.Kept() {
		fmt.Fprintf(out, "%-9s  %s  (processes %v)\n", c.Component, c.Where, c.PIDs)
		sections += c.Section + "\n"
	}
	if config == "" {
		fmt.Fprintf(out, "\nThese sections of seedbed.yaml use them, or any one of them alone:\n\n%s\n", sections)
		fmt.Fprintln(out, "PostgreSQL's schema is made by \"seedbedd migrate --config FILE\", once.")
		return nil
	}
	f, err := os.OpenFile(config, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(sections)
	return errors.Join(err, f.Close())
}

func down(k *lab.Keeper, out io.Writer) error {
	had := k.Kept()
	if err := k.Down(); err != nil {
		return err
	}
	for _, c := range had {
		fmt.Fprintf(out, "%-9s  is stopped, its data are removed\n", c.Component)
	}
	if len(had) == 0 {
		fmt.Fprintln(out, "nothing was running")
	}
	return nil
}
