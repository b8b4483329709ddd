package api_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/client"
)

// TestVolumeDownload makes a file of a volume and downloads it. It is gone then. Other projects and lesser roles do not get it.
func TestVolumeDownload(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.sharing(t)
	s.expect(t, "POST", "/volumes", `{"name":"data","size":"1GiB"}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	s.expect(t, "POST", "/volumes/data/download", `{"format":"vmdk"}`, 422)
	s.expect(t, "POST", "/volumes/none/download", `{}`, 404)
	s.expect(t, "POST", "/volumes/data/download", `{"format":"raw"}`, 202)
	j := s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	v, err := s.db.ProjectVolume(t.Context(), seedbed.DefaultProject, "data")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("what it has ", 50_000)
	if err := s.terminals.Pool.AddFile(seedbed.FileOf(v.Pool, v.ID, j.ID), []byte(content)); err != nil {
		t.Fatal(err)
	}
	left, err := c.DownloadVolume(t.Context(), string(j.ID))
	if err != nil {
		t.Fatal(err)
	}
	var b [100]byte
	if _, err := io.ReadFull(left, b[:]); err != nil {
		t.Fatal(err)
	}
	left.Close() // the file stays
	from, err := c.DownloadVolume(t.Context(), string(j.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if got, err := io.ReadAll(from); string(got) != content || err != nil {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
	again, err := c.DownloadVolume(t.Context(), string(j.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := io.ReadAll(again); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("a file that was downloaded: %v", err)
	}
	s.audited(t, "the file of volume", map[string]int{
		"token admin open the file of volume data": 3, "token admin end the file of volume data": 3})
	s.expect(t, "POST", "/volumes/data/download", `{}`, 202)
	failed := s.endJob(t, seedbed.JobResult{State: seedbed.JobFailed, Error: "no"})
	s.expect(t, "POST", "/jobs/"+string(failed.ID)+"/file", "", 409)
	s.expect(t, "POST", "/volumes", `{"name":"other","size":"1GiB"}`, 202)
	other := s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	s.expect(t, "POST", "/jobs/"+string(other.ID)+"/file", "", 409)
}
