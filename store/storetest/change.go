package storetest

import (
	"context"
	"errors"
	"sync"

	"seedbed"
)

var changeCases = map[string]func(*bench){
	"what a change sees":          testChangeSees,
	"of many changes of one text": testChangeRace,
}

func (b *bench) addNetwork(template, vni string, again bool) error {
	_, err := b.ChangeNetworkTemplate(context.Background(), template,
		func(t *seedbed.NetworkTemplate) error { return t.AddNetwork(vni, again) })
	return err
}

func (b *bench) removeNetwork(template, vni string) error {
	_, err := b.ChangeNetworkTemplate(context.Background(), template,
		func(t *seedbed.NetworkTemplate) error { return t.RemoveNetwork(vni) })
	return err
}

func (b *bench) addDisk(template string, d seedbed.TemplateDisk) error {
	_, err := b.ChangeStorageTemplate(context.Background(), template,
		func(t *seedbed.StorageTemplate) error { return t.AddDisk(d) })
	return err
}

func (b *bench) removeDisk(template, name string) error {
	_, err := b.ChangeStorageTemplate(context.Background(), template,
		func(t *seedbed.StorageTemplate) error { return t.RemoveDisk(name) })
	return err
}

func (b *bench) setUserData(name, data string) error {
	_, err := b.ChangeUserData(context.Background(), name, func(d *seedbed.UserDataDocument) error {
		d.Data = data
		return nil
	})
	return err
}

func (b *bench) setScript(name, text string) error {
	_, err := b.ChangeScript(context.Background(), name, func(s *seedbed.Script) error {
		s.Text = text
		return nil
	})
	return err
}

func (b *bench) setOptions(name string, change func(*seedbed.ScriptOptions)) error {
	_, err := b.ChangeScriptOptions(context.Background(), name, func(s *seedbed.Script) error {
		change(&s.Options)
		return nil
	})
	return err
}

// A change sees the object as it is stored, its revision included, and returns it as it is stored
// then. A change that returns an error changes nothing.
func testChangeSees(b *bench) {
	b.composed()
	changeSees(b, "small", b.SystemTemplates, b.ChangeSystemTemplate,
		func(t *seedbed.SystemTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.SystemTemplate) error { t.VCPUs++; return nil })
	changeSees(b, "lan", b.NetworkTemplates, b.ChangeNetworkTemplate,
		func(t *seedbed.NetworkTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.NetworkTemplate) error { return t.AddNetwork("default", true) })
	changeSees(b, "lan", b.NetworkTemplates, b.ChangeNetworkTemplate,
		func(t *seedbed.NetworkTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.NetworkTemplate) error { return t.RemoveNetwork("default") })
	changeSees(b, "root", b.StorageTemplates, b.ChangeStorageTemplate,
		func(t *seedbed.StorageTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.StorageTemplate) error { return t.AddDisk(diskOf("a0")) })
	changeSees(b, "root", b.StorageTemplates, b.ChangeStorageTemplate,
		func(t *seedbed.StorageTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.StorageTemplate) error { return t.RemoveDisk("sda") })
	changeSees(b, "cloud", b.UserDataDocuments, b.ChangeUserData,
		func(d *seedbed.UserDataDocument) *seedbed.ObjectMeta { return &d.ObjectMeta },
		func(d *seedbed.UserDataDocument) error { d.Data += "a: b\n"; return nil })
	script := func(s *seedbed.Script) *seedbed.ObjectMeta { return &s.ObjectMeta }
	changeSees(b, "install", b.Scripts, b.ChangeScriptOptions, script,
		func(s *seedbed.Script) error { s.Options.Privileged = true; return nil })
	changeSees(b, "install", b.Scripts, b.ChangeScript, script,
		func(s *seedbed.Script) error { s.Text += "#\n"; return nil })
}

func changeSees[T any](
	b *bench, name string, list func(context.Context, seedbed.NameMatch) ([]T, error),
	write func(context.Context, string, func(*T) error) (T, error), meta func(*T) *seedbed.ObjectMeta, change func(*T) error,
) {
	b.Helper()
	ctx := context.Background()
	read := func() T {
		b.Helper()
		return get(list(ctx, seedbed.ExactName(name)))(b)[0]
	}
	was := read()
	no := errors.New("no")
	_, err := write(ctx, name, func(t *T) error {
		b.equal(*t, was)
		b.must(change(t))
		return no
	})
	if !errors.Is(err, no) {
		b.Errorf("%s: the error of the change became %v", name, err)
	}
	b.equal(read(), was)
	is := get(write(ctx, name, func(t *T) error {
		b.equal(*t, was)
		return change(t)
	}))(b)
	b.equal(is, read())
	if old, now := *meta(&was), *meta(&is); now.Revision != old.Revision+1 || now.ID != old.ID || !now.Created.Equal(old.Created) ||
		now.Changed.Before(old.Changed) {
		b.Errorf("%s: %+v became %+v", name, old, now)
	}
}

// Of concurrent changes each sees the one before it.
func testChangeRace(b *bench) {
	const n = 12
	get(b.CreateUserData(context.Background(), "doc", ""))(b)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, errs[i] = b.ChangeUserData(context.Background(), "doc", func(d *seedbed.UserDataDocument) error {
				d.Data += "x"
				return nil
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		b.must(err)
	}
	if d := get(b.UserDataDocuments(context.Background(), seedbed.ExactName("doc")))(b)[0]; len(d.Data) != n || d.Revision != n+1 {
		b.Errorf("%d changes made revision %d with %q", n, d.Revision, d.Data)
	}
}
