package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"seedbed"
)

// s3Store keeps objects in a bucket. The clock is the server's. A lock on an object, or a version that is kept, is the server's matter:
// what it does not let go is ErrForbidden.
type s3Store struct {
	client         *minio.Client
	bucket, prefix string
	where          string
	// renewAfter is how old an object must be to be renewed, which takes a copy of it.
	renewAfter time.Duration

	mu      sync.Mutex
	renewed []string // since the last sync
}

// renewAfter is the default of s3Store.renewAfter: much less than any sweep's grace, and more than clocks may differ for the server to
// accept a signature.
const renewAfter = 30 * time.Minute

// requestTime bounds one request.
const requestTime = 5 * time.Minute

// openS3 opens a bucket. It asks the server nothing.
func openS3(c seedbed.BackupPlace) (*s3Store, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "URL %q of a place of backups: expected one such as https://s3.example.net:7480",
			seedbed.Clip(c.URL))
	}
	switch {
	case c.Bucket == "":
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "a place of backups at %s needs a bucket", u.Host)
	case c.KeyID == "" || c.Secret == "":
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "bucket %s at %s needs an access key and its secret", seedbed.Clip(c.Bucket), u.Host)
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(c.KeyID, string(c.Secret), ""), Secure: u.Scheme == "https",
		Region: cmp.Or(c.Region, "us-east-1"), BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "a place of backups at %s: %v", u.Host, err)
	}
	s := &s3Store{client: client, bucket: c.Bucket, where: "bucket " + c.Bucket + " at " + u.Host, renewAfter: renewAfter}
	if p := strings.Trim(c.Prefix, "/"); p != "" {
		s.prefix = p + "/"
	}
	return s, nil
}

func (s *s3Store) close() error { return nil }

// absent reports whether err is about an object that does not exist.
func absent(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchKey }

// explain gives an error its kind.
func (s *s3Store) explain(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer := minio.ToErrorResponse(err)
	kind, hint := error(nil), ""
	switch answer.Code {
	case minio.NoSuchKey:
		kind = seedbed.ErrNotFound
	case minio.NoSuchBucket:
		kind, hint = seedbed.ErrNotFound, ": make the bucket"
	case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage":
		kind, hint = seedbed.ErrFull, ": remove backups and sweep, or make room"
	case minio.PreconditionFailed:
		kind = seedbed.ErrExists
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "ObjectLocked", "RequestTimeTooSkewed":
		kind = seedbed.ErrForbidden
	default:
		if answer.StatusCode != 0 && answer.StatusCode < http.StatusInternalServerError {
			return fmt.Errorf("%s in %s: %w", what, s.where, err)
		}
		kind = seedbed.ErrUnavailable // also for what is not an answer
	}
	return seedbed.Errorf(kind, "%s in %s: %s%s", what, s.where, cmp.Or(answer.Message, answer.Code, err.Error()), hint)
}

func (s *s3Store) write(ctx context.Context, name string, data []byte, o minio.PutObjectOptions) error {
	asking, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	o.ContentType, o.DisableMultipart, o.SendContentMd5 = "application/octet-stream", true, true // buckets with locks need the digest
	_, err := s.client.PutObject(asking, s.bucket, s.prefix+name, bytes.NewReader(data), int64(len(data)), o)
	return s.explain(ctx, "write "+name, err)
}

func (s *s3Store) put(ctx context.Context, name string, data []byte) error {
	return s.write(ctx, name, data, minio.PutObjectOptions{})
}

func (s *s3Store) create(ctx context.Context, name string, data []byte) error {
	o := minio.PutObjectOptions{}
	o.SetMatchETagExcept("*")
	return s.write(ctx, name, data, o)
}

// sync looks whether what was renewed is still there. A sweep may have looked at its time before that, and have removed it after that.
func (s *s3Store) sync(ctx context.Context) error {
	s.mu.Lock()
	names := s.renewed
	s.renewed = nil
	s.mu.Unlock()
	return each(ctx, len(names), func(ctx context.Context, _, i int) error {
		_, ok, err := s.look(ctx, names[i])
		if err == nil && !ok {
			err = seedbed.Errorf(seedbed.ErrUnavailable, "%s in %s was swept while a backup counted on it: make the backup again", names[i], s.where)
		}
		return err
	})
}

func (s *s3Store) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	asking, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	o, err := s.client.GetObject(asking, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.explain(ctx, "read "+name, err)
	}
	defer o.Close()
	data, err := io.ReadAll(io.LimitReader(o, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "%s in %s is larger than it can be, %d bytes", name, s.where, limit)
	}
	return data, s.explain(ctx, "read "+name, err)
}

// look returns an object; ok is false without it.
func (s *s3Store) look(ctx context.Context, name string) (o minio.ObjectInfo, ok bool, err error) {
	asking, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	o, err = s.client.StatObject(asking, s.bucket, s.prefix+name, minio.StatObjectOptions{})
	if absent(err) {
		return o, false, nil
	}
	return o, err == nil, s.explain(ctx, "look at "+name, err)
}

func (s *s3Store) renew(ctx context.Context, name string) (bool, error) {
	o, ok, err := s.look(ctx, name)
	if err != nil || !ok || time.Since(o.LastModified) < s.renewAfter {
		return ok, err
	}
	asking, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	_, err = s.client.CopyObject(asking,
		minio.CopyDestOptions{Bucket: s.bucket, Object: s.prefix + name, ReplaceMetadata: true,
			UserMetadata: map[string]string{"seedbed-renewed": time.Now().UTC().Format(time.RFC3339)}},
		minio.CopySrcOptions{Bucket: s.bucket, Object: s.prefix + name})
	if absent(err) { // removed in the meantime
		return false, nil
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.renewed = append(s.renewed, name)
	}
	return err == nil, s.explain(ctx, "renew "+name, err)
}

func (s *s3Store) list(ctx context.Context, prefix string, f func(object) error) error {
	asking, cancel := context.WithCancel(ctx) // also ends the listing
	defer cancel()
	for o := range s.client.ListObjects(asking, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return s.explain(ctx, "list "+prefix, o.Err)
		}
		if err := f(object{name: strings.TrimPrefix(o.Key, s.prefix), size: o.Size, time: o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// remove looks at the time shortly before it removes an object. A call that renews the object between the two loses it.
func (s *s3Store) remove(ctx context.Context, name string, after time.Time) (bool, error) {
	if !after.IsZero() {
		o, ok, err := s.look(ctx, name)
		if err != nil || ok && o.LastModified.After(after) {
			return false, err
		}
	}
	asking, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := s.client.RemoveObject(asking, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
	if err != nil && !absent(err) {
		return false, s.explain(ctx, "remove "+name, err)
	}
	return true, nil
}

func (s *s3Store) now(ctx context.Context) (time.Time, error) {
	if err := s.put(ctx, probe, []byte("seedbed\n")); err != nil {
		return time.Time{}, err
	}
	o, ok, err := s.look(ctx, probe)
	if err == nil && !ok { // another call has removed it
		return time.Now(), nil
	}
	if err == nil {
		_, err = s.remove(ctx, probe, time.Time{})
	}
	if errors.Is(err, seedbed.ErrForbidden) { // it is locked
		err = nil
	}
	return o.LastModified, err
}

func (s *s3Store) tidy(context.Context, time.Time) error { return nil }
