package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"addon-operator/helm"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// Recorder reads the records of releases. Package helm implements it.
type Recorder interface {
	Revisions(ctx context.Context, release string) ([]int, error)
	History(ctx context.Context, release string, most int) (newest []helm.Recorded, recorded int, err error)
	// Deployed returns the objects of a revision; 0 stands for the deployed one.
	Deployed(ctx context.Context, release string, earlier int) (objects []map[string]any, revision int, err error)
}

// What is shown of releases is limited, in bytes.
const (
	longestDescription = 1000
	longestDiff        = 64 << 10  // of an object
	longestDiffs       = 512 << 10 // of all
	mostDiffs          = 1000      // objects
)

// History describes the newest revisions of a release, at most so many.
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

// describe hides secrets before it cuts: of a part of a secret it would not be known that it is one.
func describe(text string, hider *values.Hider) string {
	text, _ = values.Mask(hider.Text(text), false).(string)
	if len(text) > longestDescription {
		text = strings.ToValidUTF8(text[:longestDescription], "") + "…"
	}
	return text
}

// Compare returns what differs between the manifests of two revisions of a release. An error may be a *view.NoRevisionError.
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

// chosen are the revisions that a request means.
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
		return 0, 0, fmt.Errorf("revision %d of module %s is the oldest that is recorded: %w", to, module, errNothingBefore)
	}
	return recorded[before], to, nil
}

var errNothingBefore = errors.New("there is none to compare it with")
