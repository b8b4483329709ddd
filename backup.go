package seedbed

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The kinds of job on backups.
const (
	JobBackup        JobKind = "backup"         // copy the disks of an instance to a target
	JobBackupRestore JobKind = "backup_restore" // make an instance of a backup
	JobBackupVerify  JobKind = "backup_verify"  // read backups, and compare their digests
	JobBackupRemove  JobKind = "backup_remove"  // remove backups, and what no other one needs
)

// BackupTarget is a place where backups are: a directory that nodes reach, or a bucket of an S3 server.
type BackupTarget struct {
	Name string `json:"name"`
	BackupSettings
	// Secret is the secret key of an S3 target, Identity the age identity of an encrypted one if it is known, and NameKey the key of the names
	// of its chunks. They leave the store only for workers.
	Secret   Secret `json:"-"`
	Identity Secret `json:"-"`
	NameKey  Secret `json:"-"`
	// Revision, Created and Changed are set by the server.
	Revision int64     `json:"revision"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
}

// BackupSettings say where a target is and how it is used.
type BackupSettings struct {
	// Path is the directory of a target that is one.
	Path string `json:"path,omitempty"`
	// URL is the address of the S3 server of a target that is a bucket, Prefix what the keys of its objects begin with, and KeyID the
	// access key.
	URL    string `json:"url,omitempty"`
	Bucket string `json:"bucket,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Region string `json:"region,omitempty"`
	KeyID  string `json:"key_id,omitempty"`
	// Recipient is the age public key of an encrypted target; empty for one that is not.
	Recipient string `json:"recipient,omitempty"`
	// Node is the only node that reaches it; empty if all do.
	Node string `json:"node,omitempty"`
	// Before and After are commands that a worker runs before and after it uses the target, to mount it for example; see BackupPlace.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	// Keep says which backups the cleanup keeps; its zero value means all.
	Keep Retention `json:"keep,omitzero"`
}

// BackupTargetRequest makes a backup target.
type BackupTargetRequest struct {
	Name string `json:"name"`
	BackupSettings
	// Secret is the secret key of an S3 target, and Identity the age identity of an encrypted one.
	Secret   Secret `json:"secret,omitempty"`
	Identity Secret `json:"identity,omitempty"`
}

// BackupTargetChange says what to change of a target. A nil field stays. Where a target is never changes, and neither does its encryption.
type BackupTargetChange struct {
	KeyID    *string    `json:"key_id,omitempty"`
	Secret   *Secret    `json:"secret,omitempty"`
	Identity *Secret    `json:"identity,omitempty"`
	Node     *string    `json:"node,omitempty"`
	Before   *[]string  `json:"before,omitempty"`
	After    *[]string  `json:"after,omitempty"`
	Keep     *Retention `json:"keep,omitempty"`
}

// Of returns t with the change applied.
func (c BackupTargetChange) Of(t BackupTarget) BackupTarget {
	replace(&t.KeyID, c.KeyID)
	replace(&t.Secret, c.Secret)
	replace(&t.Identity, c.Identity)
	replace(&t.Node, c.Node)
	replace(&t.Before, c.Before)
	replace(&t.After, c.After)
	replace(&t.Keep, c.Keep)
	return t
}

func replace[T any](to, by *T) {
	if by != nil {
		*to = *by
	}
}

// BackupOwner says whose the backups of an instance are. A target is not asked: it may say anything.
type BackupOwner struct {
	Project string `json:"project"`
	// Removed is when the instance was removed; zero while it exists.
	Removed time.Time `json:"removed,omitzero"`
}

// Where returns where the target is, as text.
func (t BackupTarget) Where() string {
	if t.Path != "" {
		return t.Path
	}
	return strings.TrimSuffix(t.URL, "/") + "/" + t.Bucket + "/" + t.Prefix
}

// Place returns the target as a worker reaches it.
func (t BackupTarget) Place() BackupPlace {
	p := BackupPlace{Kind: BackupDir, Path: t.Path, URL: t.URL, Bucket: t.Bucket, Prefix: t.Prefix, Region: t.Region, KeyID: t.KeyID,
		Secret: t.Secret, Recipient: t.Recipient, Identity: t.Identity, NameKey: t.NameKey, Before: t.Before, After: t.After,
		Known: !t.Created.IsZero()}
	if t.Path == "" {
		p.Kind = BackupS3
	}
	return p
}

// The bounds of a target.
const (
	maxTargetName     = 20 // is part of the names of snapshots
	maxTargetText     = 1024
	maxTargetCommands = 8
	maxKept           = 1000
)

// CheckTargetName returns ErrInvalid unless a backup target may have that name.
func CheckTargetName(name string) error {
	if err := CheckName("backup target", name); err != nil {
		return err
	}
	if len(name) > maxTargetName {
		return Errorf(ErrInvalid, "backup target name %q has %d characters: expected at most %d", name, len(name), maxTargetName)
	}
	return nil
}

// Check returns ErrInvalid for a target that is not valid.
func (t BackupTarget) Check() error {
	if err := CheckTargetName(t.Name); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return Errorf(ErrInvalid, "backup target %q: "+format, append([]any{t.Name}, args...)...)
	}
	texts := map[string]string{"path": t.Path, "url": t.URL, "bucket": t.Bucket, "prefix": t.Prefix, "region": t.Region, "key_id": t.KeyID,
		"recipient": t.Recipient, "secret": string(t.Secret), "identity": string(t.Identity)}
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if v := texts[field]; len(v) > maxTargetText || strings.ContainsFunc(v, unicode.IsControl) {
			return bad("%s is too long, or has control characters: expected at most %d characters", field, maxTargetText)
		}
	}
	switch {
	case t.Path != "" && t.URL+t.Bucket+t.Prefix+t.Region+t.KeyID+string(t.Secret) != "":
		return bad("path is that of a directory, and the rest that of a bucket: expected only one of them")
	case t.Path != "" && (!path.IsAbs(t.Path) || path.Clean(t.Path) != t.Path || t.Path == "/"):
		return bad("path %q: expected that of a directory from the root, such as /srv/backup", Clip(t.Path))
	case t.Path == "" && (t.URL == "" || t.Bucket == "" || t.KeyID == "" || t.Secret == ""):
		return bad("expected a path, or the url, bucket, key_id and secret of an S3 server")
	case t.Recipient == "" && t.Identity != "":
		return bad("there is an identity, and no recipient: expected the public key for which the target is encrypted, too")
	}
	if t.Path == "" {
		u, err := url.Parse(t.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
			return bad("url %q: expected the address of an S3 server, such as https://s3.example.org", Clip(t.URL))
		}
		if strings.HasPrefix(t.Prefix, "/") || slices.Contains(strings.Split(t.Prefix, "/"), "..") {
			return bad("prefix %q: expected one that begins without a slash, such as seedbed/", Clip(t.Prefix))
		}
	}
	if t.Node != "" {
		if err := CheckName("node", t.Node); err != nil {
			return err
		}
	}
	for _, command := range slices.Concat(t.Before, t.After) {
		if strings.TrimSpace(command) == "" || len(command) > maxTargetText || strings.ContainsFunc(command, unicode.IsControl) {
			return bad("command %q: expected a program with its arguments, such as mount /srv/backup", Clip(command))
		}
	}
	if len(t.Before) > maxTargetCommands || len(t.After) > maxTargetCommands {
		return bad("there are too many commands: expected at most %d before and after", maxTargetCommands)
	}
	return t.Keep.Check()
}

// Retention says which backups or snapshots of an instance are kept: the newest ones, and the newest of each of the last hours, days, weeks
// and months that have any. One is kept if one of the rules keeps it. The zero value keeps all.
type Retention struct {
	Last    int `json:"last,omitempty"`
	Hourly  int `json:"hourly,omitempty"`
	Daily   int `json:"daily,omitempty"`
	Weekly  int `json:"weekly,omitempty"`
	Monthly int `json:"monthly,omitempty"`
}

// Check returns ErrInvalid for a number that is out of range.
func (r Retention) Check() error {
	for _, n := range []int{r.Last, r.Hourly, r.Daily, r.Weekly, r.Monthly} {
		if n < 0 || n > maxKept {
			return Errorf(ErrInvalid, "keep %d: expected 0 to %d", n, maxKept)
		}
	}
	return nil
}

// String returns the rules as text; empty for the zero value.
func (r Retention) String() string {
	var all []string
	for _, one := range []struct {
		n    int
		what string
	}{{r.Last, "last"}, {r.Hourly, "hourly"}, {r.Daily, "daily"}, {r.Weekly, "weekly"}, {r.Monthly, "monthly"}} {
		if one.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	return strings.Join(all, ", ")
}

// ParseRetention parses rules such as last=3,daily=7,weekly=4,monthly=12; the empty text keeps all. Anything else is ErrInvalid.
func ParseRetention(text string) (r Retention, err error) {
	for rule := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		name, number, _ := strings.Cut(strings.TrimSpace(rule), "=")
		to := map[string]*int{"last": &r.Last, "hourly": &r.Hourly, "daily": &r.Daily, "weekly": &r.Weekly, "monthly": &r.Monthly}[name]
		n, err := strconv.Atoi(number)
		if to == nil || err != nil {
			return r, Errorf(ErrInvalid, "keep %q: expected rules such as last=3,daily=7,weekly=4,monthly=12", Clip(text))
		}
		*to = n
	}
	return r, r.Check()
}

// Kept returns for each of the times at which backups or snapshots of one instance were made whether it is kept. Hours, days, weeks and
// months are those of UTC.
func (r Retention) Kept(made []time.Time) []bool {
	kept, order := make([]bool, len(made)), make([]int, len(made))
	for i := range made {
		order[i], kept[i] = i, r == Retention{}
	}
	slices.SortStableFunc(order, func(a, b int) int { return made[b].Compare(made[a]) })
	for _, rule := range []struct {
		n  int
		of func(i int) string
	}{
		{r.Last, strconv.Itoa},
		{r.Hourly, func(i int) string { return made[i].UTC().Format("2006-01-02T15") }},
		{r.Daily, func(i int) string { return made[i].UTC().Format(time.DateOnly) }},
		{r.Weekly, func(i int) string { y, w := made[i].UTC().ISOWeek(); return fmt.Sprint(y, "/", w) }},
		{r.Monthly, func(i int) string { return made[i].UTC().Format("2006-01") }},
	} {
		last, left := "", rule.n
		for _, i := range order {
			if period := rule.of(i); left > 0 && period != last {
				kept[i], last = true, period
				left--
			}
		}
	}
	return kept
}

// BackupIDOf returns the ID of a backup that a job makes, which was asked for at that time. IDs sort by time.
func BackupIDOf(job JobID, at time.Time) BackupID {
	return BackupID(at.UTC().Format("20060102T150405Z") + "-" + job.Short())
}

// BackupSnapshot names the snapshot of the volumes that a backup in a target is read from. The next one may be read by what has changed
// since.
func BackupSnapshot(target string, backup BackupID) string {
	return "backup-" + target + "-" + string(backup)
}

// AttachedBackupSnapshot is BackupSnapshot for a volume that is attached, as that disk of the backup. The disk is in the name because the
// volume may be another one in the next backup.
func AttachedBackupSnapshot(target string, backup BackupID, disk int) string {
	return BackupSnapshot(target, backup) + "-" + strconv.Itoa(disk)
}

// backupSnapshot is the form of the names of BackupSnapshot and AttachedBackupSnapshot.
var backupSnapshot = regexp.MustCompile(`^backup-(.+)-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}(-[0-9]{1,2})?$`)

// SnapshotTarget returns the target of a backup whose snapshot, by BackupSnapshot or AttachedBackupSnapshot, has that name; empty for any
// other name.
func SnapshotTarget(name string) string {
	if m := backupSnapshot.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// BackupJob is the input of a job that makes a backup.
type BackupJob struct {
	Target string `json:"target"`
	// Backup is the ID of the backup.
	Backup BackupID `json:"backup"`
	// Full reads the volumes as a whole, whatever has changed.
	Full bool `json:"full,omitempty"`
	// Exclude are the names of attached volumes that are left out.
	Exclude []string `json:"exclude,omitempty"`
	// Schedule is the schedule that has asked for it; empty for a caller.
	Schedule string `json:"schedule,omitempty"`
}

// BackupWork is the input of a job that verifies or removes backups.
type BackupWork struct {
	Target  string      `json:"target"`
	Backups []BackupKey `json:"backups"`
}

// BackupRestore is the input of a job that makes an instance of a backup.
type BackupRestore struct {
	Target string    `json:"target"`
	Backup BackupKey `json:"backup"`
}

// BackupRestoreRequest asks for an instance that is made of a backup.
type BackupRestoreRequest struct {
	// Name is the name of the new instance.
	Name string `json:"name"`
	// Networks and Pools map those of the backup to those that take their place; what is not in them keeps its name.
	Networks map[string]string `json:"networks,omitempty"`
	Pools    map[string]string `json:"pools,omitempty"`
	// KeepMACs keeps the MAC addresses, which nothing else may have.
	KeepMACs bool `json:"keep_macs,omitempty"`
	// Off leaves the instance off.
	Off bool `json:"off,omitempty"`
	// Node is the node for it; empty leaves the choice to the placement.
	Node string `json:"node,omitempty"`
}
