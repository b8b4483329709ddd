package provision

import "seedbed"

func (l *lab) addNetwork(template, vni string) {
	l.t.Helper()
	_, err := l.db.ChangeNetworkTemplate(l.t.Context(), template,
		func(t *seedbed.NetworkTemplate) error { return t.AddNetwork(vni, false) })
	l.ok(err)
}

func (l *lab) addDisk(template string, d seedbed.TemplateDisk) {
	l.t.Helper()
	_, err := l.db.ChangeStorageTemplate(l.t.Context(), template,
		func(t *seedbed.StorageTemplate) error { return t.AddDisk(d) })
	l.ok(err)
}

func (l *lab) setUserData(name, data string) {
	l.t.Helper()
	_, err := l.db.ChangeUserData(l.t.Context(), name, func(d *seedbed.UserDataDocument) error {
		d.Data = data
		return nil
	})
	l.ok(err)
}

func (l *lab) setScript(name, text string) {
	l.t.Helper()
	_, err := l.db.ChangeScript(l.t.Context(), name, func(s *seedbed.Script) error {
		s.Text = text
		return nil
	})
	l.ok(err)
}

func (l *lab) setOptions(script string, change func(*seedbed.ScriptOptions)) {
	l.t.Helper()
	_, err := l.db.ChangeScriptOptions(l.t.Context(), script, func(s *seedbed.Script) error {
		change(&s.Options)
		return nil
	})
	l.ok(err)
}
