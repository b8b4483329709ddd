package lab

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// engines start the components that a Keeper knows, by name.
var engines = map[string]func(*Keeper, *kept){
	"ceph": func(k *Keeper, c *kept) {
		ceph := Ceph(k)
		ceph.Pool(k, "seedbed")
		c.Pool = ceph.Name
		c.Where = fmt.Sprintf("ceph -c %s -s", ceph.Conf)
		c.Section = "storage: " + ceph.Storage(k, "seedbed")
	},
	"postgres": func(k *Keeper, c *kept) {
		s := Postgres(k)
		s.exec(k, "CREATE DATABASE seedbed")
		c.Where = fmt.Sprintf("psql '%s'", s.DSN("seedbed"))
		c.Section = "store: " + s.Store("seedbed")
	},
	"zookeeper": func(k *Keeper, c *kept) {
		z := ZooKeeper(k)
		c.Where = "client port " + z.Addr
		c.Section = "coordination: " + z.Coordination(10*time.Second)
	},
}

// Engines are the components that Up can start.
func Engines() []string { return []string{"ceph", "postgres", "zookeeper"} }

// Up starts a component unless it runs already, and leaves it running. One that
// died is taken away first, with its data.
func (k *Keeper) Up(name string) (err error) {
	start := engines[name]
	if start == nil {
		return fmt.Errorf("component %q does not exist: expected one of %s", name, strings.Join(Engines(), ", "))
	}
	if c := k.find(name); c != nil {
		if c.runs() {
			return nil
		}
		if err := k.locked(c, k.remove); err != nil {
			return err
		}
	}
	c := &kept{Component: name}
	if err := k.locked(c, k.expect); err != nil {
		return err
	}
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		f, ok := v.(fatal)
		if !ok {
			panic(v)
		}
		err = errors.Join(fmt.Errorf("start %s: %s", name, f), k.locked(c, k.remove))
	}()
	start(k, c)
	c.Ready = true
	return k.locked(c, func(*kept) error { k.cur = nil; return k.save() })
}

// Down stops everything on record, and removes its data and the record.
func (k *Keeper) Down() error {
	for len(k.kept) > 0 {
		if err := k.locked(k.kept[len(k.kept)-1], k.remove); err != nil {
			return err
		}
	}
	return nil
}

// Abandon takes away what is being started, and has nothing more be started;
// the program ends after it.
func (k *Keeper) Abandon() error {
	k.mu.Lock() // for good
	if k.cur == nil {
		return nil
	}
	return k.remove(k.cur)
}

// Kept describes a component that is on record.
type Kept struct {
	Component string
	Where     string // how to reach it
	Section   string // of seedbed.yaml, in one line
	PIDs      []int
}

// Kept lists what is on record.
func (k *Keeper) Kept() []Kept {
	var all []Kept
	for _, c := range k.kept {
		one := Kept{Component: c.Component, Where: c.Where, Section: c.Section}
		for _, p := range c.Processes {
			one.PIDs = append(one.PIDs, p.PID)
		}
		all = append(all, one)
	}
	return all
}

func (k *Keeper) find(name string) *kept {
	for _, c := range k.kept {
		if c.Component == name {
			return c
		}
	}
	return nil
}

func (c *kept) runs() bool {
	for _, p := range c.Processes {
		if !p.alive() {
			return false
		}
	}
	return c.Ready
}

// expect puts a component on record whose start begins.
func (k *Keeper) expect(c *kept) error {
	k.kept, k.cur = append(k.kept, c), c
	return k.save()
}

func (k *Keeper) locked(c *kept, do func(*kept) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return do(c)
}
