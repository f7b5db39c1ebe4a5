package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"addon-operator/messages/view"
)

// How many revisions of a release are shown, and how long reading their records may take. A record
// may be a mebibyte.
const (
	usualRevisions = 20
	mostRevisions  = 100
	recordsTimeout = 30 * time.Second
)

// release is the name of the module whose release is asked for. Global values have none, and
// without Releases no module has one.
func (s modulePages) release(r *http.Request) (string, error) {
	asked := r.PathValue("name")
	own, err := s.owner(r.Context(), asked)
	if err != nil {
		return "", err
	}
	if s.Releases == nil || s.Compare == nil || asked == globalOwner {
		return "", notFound("%s has no release", asked)
	}
	return s.nameOf(asked, own), nil
}

// historyPage answers /module/NAME/history, the newest revision first.
func (s modulePages) historyPage(r *http.Request) (any, error) {
	module, err := s.release(r)
	if err != nil {
		return nil, err
	}
	most := usualRevisions
	if text := r.URL.Query().Get("max"); text != "" {
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > mostRevisions {
			return nil, badRequest("max must be a number from 1 to %d, not %q", mostRevisions, text)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordsTimeout)
	defer cancel()
	history, err := s.Releases(ctx, module, most)
	return display{history, func(w io.Writer) { writeHistory(w, history) }}, err
}

// writeHistory writes a line for each revision. One whose record cannot be read has its error as
// the description.
func writeHistory(w io.Writer, history view.ReleaseHistory) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range history.Revisions {
		updated := ""
		if !r.Updated.IsZero() {
			updated = r.Updated.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", r.Revision, updated, r.Status, r.ChartVersion, r.AppVersion, r.Description+r.Error)
	}
	_ = table.Flush() // the client has gone
	if older := history.Recorded - len(history.Revisions); older > 0 {
		fmt.Fprintf(w, "%s left out\n", view.Count(older, "older revision"))
	}
}

// diffPage answers /module/NAME/diff. Without from and to it compares the two newest revisions. An
// unknown revision is answered with 404, records that cannot be compared with 422.
func (s modulePages) diffPage(r *http.Request) (any, error) {
	module, err := s.release(r)
	if err != nil {
		return nil, err
	}
	request := view.DiffRequest{Secrets: showSecrets(r)}
	from, fromErr := revision(r, "from")
	to, toErr := revision(r, "to")
	if err := errors.Join(fromErr, toErr); err != nil {
		return nil, &pageError{http.StatusBadRequest, err}
	}
	request.From, request.To = from, to
	ctx, cancel := context.WithTimeout(r.Context(), recordsTimeout)
	defer cancel()
	diff, err := s.Compare(ctx, module, request)
	if unknown := (*view.NoRevisionError)(nil); errors.As(err, &unknown) {
		return nil, &pageError{http.StatusNotFound, err}
	}
	if err != nil {
		return nil, &pageError{http.StatusUnprocessableEntity, err}
	}
	return display{diff, func(w io.Writer) { writeDiff(w, diff) }}, nil
}

// revision is the number of a revision in a parameter; 0 without the parameter, which leaves the
// choice to Compare.
func revision(r *http.Request, name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return 0, badRequest("%s must be the number of a revision, not %q", name, text)
	}
	return number, nil
}

func writeDiff(w io.Writer, diff view.RevisionDiff) {
	if len(diff.Changes) == 0 {
		fmt.Fprintf(w, "No differences between revisions %d and %d.\n", diff.From, diff.To)
	}
	writeChanges(w, diff.Changes)
	if diff.Cut != "" {
		fmt.Fprintln(w, diff.Cut)
	}
}
