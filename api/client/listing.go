package client

import (
	"context"
	"net/url"

	"seedbed"
)

// ListInstances lists the instances that q selects, by project and name. Without the scope of all
// projects, they are those of the project that the client acts in. It reads them page by page.
func (c *Client) ListInstances(ctx context.Context, q seedbed.InstanceQuery) ([]seedbed.Instance, error) {
	query := given(map[string]string{
		"state": string(q.State), "profile": q.Profile, "node": q.Node, "name": q.Prefix, "after": q.After.String(),
	})
	return pages[seedbed.Instance](ctx, c, "/instances", scoped(query, q.Scope), q.Limit)
}

// scoped returns a query for the objects of all projects if in is the scope of all, and otherwise for
// those of the project that the client acts in.
func scoped(query url.Values, in seedbed.Scope) url.Values {
	if in == seedbed.AllProjects() {
		query.Set("all_projects", "true")
	}
	return query
}

// ListProfiles lists the profiles that q selects, by name. It reads them page by page.
func (c *Client) ListProfiles(ctx context.Context, q seedbed.ProfileQuery) ([]seedbed.Profile, error) {
	query := given(map[string]string{"name": q.Prefix, "after": q.After})
	return pages[seedbed.Profile](ctx, c, "/profiles", scoped(query, q.Scope), q.Limit)
}

// ListJobs lists the jobs that q selects, newest first. It reads them page by page.
func (c *Client) ListJobs(ctx context.Context, q seedbed.JobQuery) ([]seedbed.Job, error) {
	query := given(map[string]string{"kind": string(q.Kind), "state": string(q.State), "subject": q.Subject, "node": q.Node})
	if q.After.ID != "" {
		query.Set("after", q.After.String())
	}
	return pages[seedbed.Job](ctx, c, "/jobs", scoped(query, q.Scope), q.Limit)
}

// RetryJob resumes a failed job, or submits the same request again. It returns seedbed.ErrConflict
// if the job cannot be retried.
func (c *Client) RetryJob(ctx context.Context, id string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/jobs", id)+"/retry", nil)
}
