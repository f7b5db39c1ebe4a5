package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"addon-operator/helm"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// Recorder reads the records of releases. Package helm implements it.
type Recorder interface {
	// Revisions returns the numbers of all recorded revisions, the newest first; none without a
	// release.
	Revisions(ctx context.Context, release string) ([]int, error)
	// History returns at most so many revisions, the newest first, and how many are recorded.
	History(ctx context.Context, release string, most int) (newest []helm.Recorded, recorded int, err error)
	// Deployed returns the objects of a revision; 0 stands for the deployed one. The revision 0
	// comes back when it is not recorded.
	Deployed(ctx context.Context, release string, earlier int) (objects []map[string]any, revision int, err error)
}

// What is shown of releases is limited, in bytes: a manifest may have 16 MiB (D39), more than a
// page can show.
const (
	longestDescription = 1000
	longestDiff        = 64 << 10  // of an object
	longestDiffs       = 512 << 10 // of all
	mostDiffs          = 1000      // objects
)

// History describes the newest revisions of a release, at most so many. A record that cannot be
// read is shown with its error: the others are what people look for then.
func History(ctx context.Context, records Recorder, module string, hider *values.Hider, most int) (view.ReleaseHistory, error) {
	newest, recorded, err := records.History(ctx, module, most)
	if err != nil {
		return view.ReleaseHistory{}, err
	}
	h := view.ReleaseHistory{Module: module, Revisions: make([]view.Revision, 0, len(newest)), Recorded: recorded}
	for _, r := range newest {
		shown := view.Revision{
			Revision: r.Revision, Updated: r.Updated, Status: r.Status, Chart: r.Chart, ChartVersion: r.ChartVersion, AppVersion: r.AppVersion,
			Description: describe(r.Description, hider),
		}
		if r.Err != nil {
			shown.Error = describe(r.Err.Error(), hider)
		}
		h.Revisions = append(h.Revisions, shown)
	}
	return h, nil
}

// describe hides secrets before it cuts: a part of a secret would not be recognised. Descriptions
// of Helm quote errors of the API server and of hooks, which may quote values.
func describe(text string, hider *values.Hider) string {
	text, _ = values.Mask(hider.Text(text), false).(string)
	return values.Shorten(text, longestDescription)
}

// Compare returns what differs between the manifests of two revisions of a release: without From
// the one recorded before To, without To the newest. An error is a *view.NoRevisionError when a
// revision is not recorded, which lists those that are. The result is limited in size; Cut says
// what is left out.
func Compare(ctx context.Context, records Recorder, module string, hider *values.Hider, request view.DiffRequest) (view.RevisionDiff, error) {
	recorded, err := records.Revisions(ctx, module)
	if err != nil {
		return view.RevisionDiff{}, err
	}
	from, to, err := chosen(module, recorded, request)
	if err != nil {
		return view.RevisionDiff{}, err
	}
	var sides [2][]map[string]any
	for i, revision := range []int{from, to} {
		objects, found, err := records.Deployed(ctx, module, revision)
		if err == nil && found == 0 { // a new revision has made it superfluous
			err = &view.NoRevisionError{Module: module, Revision: revision, Recorded: slices.DeleteFunc(slices.Clone(recorded), func(n int) bool { return n == revision })}
		}
		if err != nil {
			return view.RevisionDiff{}, err
		}
		sides[i] = objects
	}
	d := differ{from: fmt.Sprintf("revision %d", from), to: fmt.Sprintf("revision %d", to), limited: true}
	if !request.Secrets {
		d.mask = hider.Object
	}
	return view.RevisionDiff{Module: module, From: from, To: to, Changes: d.objects(sides[0], sides[1]), Cut: d.cut()}, nil
}

// chosen are the revisions that a request means. recorded has the newest first. From may be newer
// than To, or the same: people ask for the difference in either direction.
func chosen(module string, recorded []int, request view.DiffRequest) (from, to int, err error) {
	for _, wanted := range []int{request.From, request.To} {
		if wanted != 0 && !slices.Contains(recorded, wanted) {
			return 0, 0, &view.NoRevisionError{Module: module, Revision: wanted, Recorded: recorded}
		}
	}
	if len(recorded) == 0 {
		return 0, 0, &view.NoRevisionError{Module: module}
	}
	if from, to = request.From, request.To; to == 0 {
		to = recorded[0]
	}
	if from != 0 {
		return from, to, nil
	}
	before := slices.Index(recorded, to) + 1
	if before == len(recorded) {
		return 0, 0, fmt.Errorf("revision %d of module %s is the oldest recorded one: %w", to, module, errNothingBefore)
	}
	return recorded[before], to, nil
}

// errNothingBefore is part of a sentence that names the revision.
var errNothingBefore = errors.New("there is no earlier revision to compare it with")
