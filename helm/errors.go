package helm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/helm/kinds"
)

// Kind classifies an Error by what a caller can do about it.
type Kind string

// Kinds of errors.
const (
	Render      Kind = "render"      // the chart does not load or render: the chart or the values must change
	Immutable   Kind = "immutable"   // a field changed that Kubernetes never changes: the object must be deleted
	Foreign     Kind = "foreign"     // an object belongs to another release
	Invalid     Kind = "invalid"     // the API server refuses an object, or does not serve its kind
	Cancelled   Kind = "cancelled"   // the context ended; a later Apply repairs what was left
	Unavailable Kind = "unavailable" // the API server cannot be reached or is overloaded: try again
	Away        Kind = "away"        // the kinds of a needed API are unknown: its server does not answer; try again
	Conflict    Kind = "conflict"    // another client wrote the release or an object at the same time: try again
	Failed      Kind = "failed"      // a Helm hook failed, or anything Helm gives no reason for
)

// Error is every error of Apply, Uninstall and Releases. Its text names the
// template or the object, and what to do. It quotes no Secret as a whole; webhooks may quote single values in it, and
// whoever shows it hides those that are secrets (J9).
type Error struct {
	Kind    Kind
	Release string // empty for Releases
	Err     error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Release == "" {
		return "helm: " + e.Err.Error()
	}
	return "release " + e.Release + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsAway reports that the server of a needed API does not answer, so that it is unknown what Helm
// would do (P13).
func IsAway(err error) bool {
	var problem *Error
	return errors.As(err, &problem) && problem.Kind == Away
}

// Public is what everybody may read of the error: the names of objects, fields, templates and Helm hooks, what is
// wrong with them, and advice, but no text that may quote values. Texts of Helm and of the API server quote the
// values that they refuse, and those of charts may be made of values (fail).
func (e *Error) Public() string {
	return (&Error{Release: e.Release, Err: errors.New(public(e.Err))}).Error()
}

// public is the text of an error of this package, and of any other one what publicText has found.
func public(err error) string {
	if o, ok := err.(*opaque); ok { //nolint:errorlint // not what it wraps
		return (&opaque{text: o.public, advice: o.advice}).Error()
	}
	return err.Error()
}

// problem makes an Error of a known kind.
func problem(kind Kind, release, format string, args ...any) *Error {
	return &Error{Kind: kind, Release: release, Err: fmt.Errorf(format, args...)}
}

// maxErrorText is the length in bytes at which texts of the API server are cut in the middle: it
// quotes a refused object as a whole.
const maxErrorText = 1500

// classify gives an error of Helm its kind and an advice.
// Helm joins errors as text, so the kind comes from the context, from what the transport saw, and
// from words in the text.
func classify(ctx context.Context, release string, op *operation, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	var failure failure
	if op != nil {
		failure = op.transport.failed()
	}
	kind := kindOf(ctx, err, failure)
	text := err.Error()
	if op != nil {
		text = op.masked(text)
	}
	text = shorten(strings.ReplaceAll(text, "\n", "; "))
	advice := adviceFor(kind, text)
	shown := publicText(kind, failure.refused, text)
	if away, ok := errors.AsType[*kinds.AwayError](err); ok {
		shown = away.Error()
	}
	cleaned := &opaque{text: text, public: shown, advice: advice, cause: err}
	if kind == Cancelled && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		cleaned.cause = errors.Join(ctx.Err(), err)
	}
	return &Error{Kind: kind, Release: release, Err: cleaned}
}

// minSecret is the length below which a value is not masked: replacing "yes" would destroy the text and hide nothing.
const minSecret = 4

// keepSecrets remembers the values of Secrets that are about to be written, plain, in base64 and quoted: the API
// server and webhooks quote what they refuse.
func (op *operation) keepSecrets(objects []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
			continue
		}
		for _, field := range []string{"data", "stringData"} {
			values, _, _ := unstructured.NestedMap(o.Object, field)
			for _, v := range values {
				text, _ := v.(string)
				plain, _ := base64.StdEncoding.DecodeString(text)
				for _, s := range []string{text, string(plain)} {
					s = strings.TrimSpace(s) // a password may be shown without the line break that it was encoded with
					quoted := strconv.Quote(s)
					op.secrets = append(op.secrets, s, quoted[1:len(quoted)-1])
				}
			}
		}
	}
}

// masked is a text without these values. Longer ones go first, so that one that contains another disappears as a
// whole.
func (op *operation) masked(text string) string {
	for _, s := range slices.SortedFunc(slices.Values(op.secrets), func(a, b string) int { return len(b) - len(a) }) {
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

// opaque shows a shortened text and keeps the cause for errors.Is and errors.As.
type opaque struct {
	text, advice string
	public       string // text without what may quote values
	cause        error
}

// Error returns the cleaned text, and the advice.
func (o *opaque) Error() string {
	if o.advice == "" {
		return o.text
	}
	return o.text + "; " + o.advice
}

// Unwrap returns the cause, whose text may hold secrets.
func (o *opaque) Unwrap() error { return o.cause }

// isUnavailable recognises answers, and missing answers, that are not a verdict on
// the request itself.
func isUnavailable(err error) bool {
	var noAnswer *url.Error
	return errors.As(err, &noAnswer) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

func kindOf(ctx context.Context, err error, f failure) Kind {
	text := err.Error()
	var corrupted *corruptedError
	var away *kinds.AwayError
	switch {
	case ctx.Err() != nil, errors.Is(err, context.Canceled):
		return Cancelled
	case errors.As(err, &away):
		return Away
	case errors.Is(err, driver.ErrReleaseExists), errors.Is(err, errTaken), apierrors.IsConflict(err),
		strings.Contains(text, "another operation (install/upgrade/rollback) is in progress"):
		return Conflict
	case isImmutable(text):
		return Immutable
	case meta.IsNoMatchError(err), strings.Contains(text, "no matches for kind"),
		strings.Contains(text, "the server could not find the requested resource"):
		return Invalid
	case errors.As(err, &corrupted), strings.Contains(text, hookAgain): // Helm joins errors as text
		return Failed
	case isUnavailable(err), f.unavailable, f.code >= http.StatusInternalServerError, f.code == http.StatusTooManyRequests:
		return Unavailable
	case f.code == http.StatusConflict:
		return Conflict
	case f.code == http.StatusUnprocessableEntity, f.code == http.StatusBadRequest, f.code == http.StatusForbidden,
		apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err),
		apierrors.IsRequestEntityTooLargeError(err):
		return Invalid
	}
	return Failed
}

// isImmutable recognises the error of the API server for a field that it never
// changes.
func isImmutable(text string) bool {
	return strings.Contains(text, "is immutable") || strings.Contains(text, "updates to statefulset spec for fields other than") ||
		strings.Contains(text, "cannot change roleRef")
}

func adviceFor(kind Kind, text string) string {
	switch {
	case kind == Immutable:
		return "Kubernetes never changes this field: undo the change, or delete the object, which the next attempt creates again"
	case kind == Conflict:
		return "another client wrote the same object or release at the same time, and the next attempt reads it again; if this continues, look for another operator, a helm command or a controller that does so"
	case strings.Contains(text, `namespaces "`) && strings.Contains(text, "not found"):
		return "create it, or allow the operator to create namespaces"
	case kind == Invalid && strings.Contains(text, "no matches for kind"):
		return "install the CRD of this kind first (put it into the crds directory of" +
			" a module that runs earlier), or remove the object from the templates"
	case kind == Invalid && strings.Contains(text, "is forbidden: User ") && strings.Contains(text, " cannot "):
		return "grant the operator's service account this permission: 'addon-operator rbac generate' prints all permissions that it needs"
	case kind == Invalid && strings.Contains(text, "Too long: may not be more than 1048576 bytes"):
		return "the rendered manifest is larger than a release record may be: split the module"
	}
	return ""
}

// shorten keeps the beginning and the end of a long text: the name of the
// object is at the beginning, the reason at the end.
func shorten(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	const head = maxErrorText * 2 / 3
	tail := len(text) - (maxErrorText - head)
	return strings.ToValidUTF8(text[:head], "") + " […] " + strings.ToValidUTF8(text[tail:], "")
}

var (
	// shownParts are the parts of a text of Helm that everybody may read, by their form: a place in a template, a kind
	// that the API server does not have, a Helm hook that failed.
	shownParts = regexp.MustCompile(`[\w.-]+(?:/[\w.-]+)*/templates/[\w./-]+(?::\d+)?` +
		`|no matches for kind "[A-Za-z0-9]+" in version "[a-z0-9./-]+"` +
		`|\b(?:job|pod) [a-z0-9.-]+ failed(?:: [A-Za-z]+)?|Helm hook [A-Za-z]+ [a-z0-9./-]+ did not finish within [0-9a-z]+`)
	// shownField is as much of the path of a field as cannot hold a value: a key of a map in brackets may be one.
	shownField = regexp.MustCompile(`^[A-Za-z0-9_.-]*(?:\[\d*\][A-Za-z0-9_.-]*)*`)
	shownWord  = regexp.MustCompile(`^[A-Za-z]*`)
)

// mostParts and mostFields limit what is listed: the first ones are enough to find the others.
const mostParts, mostFields = 3, 5

// publicText describes an error by what is known of it and is not free text. refused is the last refusal of the API
// server; nil if there was none.
func publicText(kind Kind, refused *metav1.Status, text string) string {
	what := map[Kind]string{
		Render: "the chart does not load or render", Cancelled: "the operation was cancelled",
		Unavailable: "the API server cannot be reached, or is overloaded",
	}[kind]
	if kind != Render && refused != nil {
		what = refusalText(refused)
	}
	var parts []string
	if what != "" {
		parts = append(parts, what)
	}
	for _, part := range shownParts.FindAllString(text, -1) {
		if len(parts) <= mostParts && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "Helm failed (" + string(kind) + ")"
	}
	return strings.Join(parts, "; ")
}

// refusalText says what the API server has refused, and why, without the messages, which quote values.
func refusalText(s *metav1.Status) string {
	text, details := "the API server refuses the request", &metav1.StatusDetails{}
	if s.Details != nil {
		details = s.Details
	}
	if details.Kind != "" {
		text = fmt.Sprintf("the API server refuses %s %s", details.Kind, details.Name)
	}
	text += fmt.Sprintf(" (%d %s)", s.Code, shownWord.FindString(string(s.Reason)))
	var fields []string
	for _, c := range details.Causes[:min(len(details.Causes), mostFields)] {
		field, reason := shownField.FindString(c.Field), shownWord.FindString(string(c.Type))
		fields = append(fields, fmt.Sprintf("%s (%s)", field, reason))
	}
	if len(fields) > 0 {
		text += ": " + strings.Join(fields, ", ")
	}
	return text
}
