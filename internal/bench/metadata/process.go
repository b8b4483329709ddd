package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// process is a program in a namespace. It dies with this one.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has ended; err is set then
	err   error
	log   string
}

// start runs a program in the namespace with its output in a file.
func (ns space) start(log string, cmd *exec.Cmd) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	p := &process{cmd: cmd, ended: make(chan struct{}), log: log}
	started := make(chan error)
	go func() {
		// Pdeathsig is about the thread: it stays until the program has ended, and
		// ends with the goroutine.
		runtime.LockOSThread()
		defer out.Close()
		err := unix.Setns(int(ns), unix.CLONE_NEWNET)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// alive is an error with the end of the output once the program has ended.
func (p *process) alive() error {
	select {
	case <-p.ended:
		b, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s ended (%v):\n%s", p.cmd.Path, p.err, b[max(0, len(b)-2000):])
	default:
		return nil
	}
}

// stop ends the program as an operator would.
func (p *process) stop() error {
	p.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(20 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not stop within 20 s", p.cmd.Path)
	}
}

// await polls until ok, at most for so long, while the program lives.
func (p *process) await(ctx context.Context, most, every time.Duration, ok func() bool) error {
	deadline := time.Now().Add(most)
	for !ok() {
		if err := errors.Join(ctx.Err(), p.alive()); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %s", p.cmd.Path, most)
		}
		time.Sleep(every)
	}
	return nil
}
