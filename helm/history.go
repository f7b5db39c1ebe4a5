package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Recorded is a revision of a release, as its record describes it. Unlike Record it has no values
// and no files, so it can be kept and shown.
type Recorded struct {
	Revision int
	Status   string    // as Helm names it: deployed, superseded, failed, pending-install, …
	Updated  time.Time // when it was installed, or when that failed; zero: unknown
	// Chart, ChartVersion and AppVersion are those of Chart.yaml; the last one may be empty.
	Chart, ChartVersion, AppVersion string
	Description                     string // Helm's description, with the reason of a failure
	// Err is why the record cannot be read: then only the revision and its status are known.
	Err error
}

// Revisions returns the numbers of the recorded revisions of a release, the newest first; none
// without a release. The body of no record is read.
func (c *Client) Revisions(ctx context.Context, name string) ([]int, error) {
	_, state, err := c.history(ctx, name)
	var numbers []int
	for _, r := range slices.Backward(state.Revisions) {
		numbers = append(numbers, r.Version)
	}
	return numbers, err
}

// History describes the newest revisions of a release, at most so many, the newest first, and
// returns how many are recorded. It reads the records of these only, one after the other, and keeps
// none, because each may take megabytes. One that cannot be read is among them with its error.
func (c *Client) History(ctx context.Context, name string, most int) (newest []Recorded, recorded int, err error) {
	home, state, err := c.history(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	all := state.Revisions
	for _, r := range slices.Backward(all[max(0, len(all)-most):]) {
		described, err := describe(ctx, home.objects, name, r)
		switch {
		case apierrors.IsNotFound(err): // deleted since the state was read, as a surplus one (H7)
			recorded--
			continue
		case err != nil && ctx.Err() != nil:
			return nil, 0, &Error{Kind: readKind(ctx, err), Release: name, Err: err}
		}
		described.Err = err
		newest = append(newest, described)
	}
	return newest, recorded + len(all), nil
}

// history reads the state of a release, wherever it is.
func (c *Client) history(ctx context.Context, name string) (*home, State, error) {
	home, err := c.homes.holding(ctx, name)
	if err != nil {
		return nil, State{}, err
	}
	state, err := home.records.read(ctx, name)
	if err != nil {
		return nil, State{}, &Error{Kind: readKind(ctx, err), Release: name, Err: err}
	}
	return home, state, nil
}

// describe reads one record, within the limits of unpackRecord. Manifests and values, which are
// most of it, are not decoded. A corrupted record is described by its labels, and is an error.
func describe(ctx context.Context, objects recordObjects, release string, r Revision) (Recorded, error) {
	described := Recorded{Revision: r.Version, Status: string(r.Status)}
	object, err := objects.Get(ctx, r.secret, metav1.GetOptions{})
	if err != nil {
		return described, fmt.Errorf("read release record %s: %w", r.secret, err)
	}
	var record struct {
		Name    string
		Version int
		Info    struct {
			Updated     time.Time `json:"last_deployed"`
			Description string
			Status      string
		}
		Chart struct {
			Metadata struct{ Name, Version, AppVersion string }
		}
	}
	raw, err := unpackRecord(object.Data[recordKey])
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err == nil && (record.Name != release || record.Version != r.Version) {
		err = fmt.Errorf("it contains release %s, revision %d", record.Name, record.Version)
	}
	if err != nil {
		return described, &corruptedError{secret: r.secret, err: err}
	}
	info, chart := record.Info, record.Chart.Metadata
	return Recorded{
		Revision: r.Version, Status: info.Status, Updated: info.Updated, Description: info.Description,
		Chart: chart.Name, ChartVersion: chart.Version, AppVersion: chart.AppVersion,
	}, nil
}
