package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"addon-operator/messages/view"
	"addon-operator/values"
)

// PageTokenHeader carries the token that the live page was given on the debug address. Pages of
// other sites can neither read the page nor send the header, so a request that has it comes from a
// page that this process has served (J20).
const PageTokenHeader = "Addon-Operator-Page-Token"

// The requests that a person can make of a module on the live page.
const (
	ActRun     = "run"
	ActRetry   = "retry"
	ActSuspend = "suspend"
	ActResume  = "resume"
)

func acts() []string { return []string{ActRun, ActRetry, ActSuspend, ActResume} }

// Act writes a request of a person to the object of a module (J16, J17), with the rights of the
// operator. kept means that the module is suspended, so the request waits until it is resumed. An
// error may be a *MayNotError.
type Act func(ctx context.Context, module, act string) (kept bool, err error)

// MayNotError is the error of an [Act] for which the operator lacks a permission, or the cluster
// the kind. It is answered with 403, and its text contains the fix.
type MayNotError struct{ Err error }

// Error implements error.
func (e *MayNotError) Error() string { return e.Err.Error() }

// Unwrap serves errors.As.
func (e *MayNotError) Unwrap() error { return e.Err }

// actPages take requests of people about a module.
type actPages struct{ owners }

// request answers POST /module/NAME/request (J20). Every client that reaches this address acts with the
// rights of the operator, so it demands the token of the page, and loopback or the socket. Checks
// of the origin and of the host name come before, in Debug.
func (s actPages) request(r *http.Request) (any, error) {
	if s.Act == nil {
		return nil, notFound("this operator accepts no requests")
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(PageTokenHeader)), []byte(s.pageToken)) != 1 {
		return nil, &pageError{http.StatusForbidden, errors.New("only the live page of this operator may send requests here: reload the page. In scripts use addon-operator run, retry, suspend and resume, or kubectl")}
	}
	if local, tcp := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); tcp && !local.IP.IsLoopback() {
		return nil, &pageError{http.StatusForbidden, errors.New("requests are accepted on loopback only, for example through kubectl port-forward: clients of this address may not be authorized to send them")}
	}
	asked, name := r.URL.Query().Get("do"), r.PathValue("name")
	if !slices.Contains(acts(), asked) {
		return nil, badRequest("do must be run, retry, suspend or resume, not %q", asked)
	}
	if !slices.Contains(s.modules(), name) {
		return nil, s.noModule(name, s.modules())
	}
	kept, err := s.Act(r.Context(), name, asked)
	if _, ok := errors.AsType[*MayNotError](err); ok {
		return nil, &pageError{http.StatusForbidden, err}
	}
	if err != nil {
		return nil, err
	}
	said := acceptedOf(name, asked, kept)
	return display{map[string]string{"said": said}, lines([]string{said})}, nil
}

// actButton is a button of the detail of a module. Do is the request, Text what is on it.
type actButton struct{ Do, Text string }

// actButtons are the requests that make sense for a module now. A suspended one can only be
// resumed.
func (s livePages) actButtons(m view.Module) []actButton {
	if s.Act == nil {
		return nil
	}
	if m.Maintenance == values.Suspended {
		return []actButton{{ActResume, "resume"}}
	}
	var all []actButton
	if len(m.Failing) > 0 {
		all = append(all, actButton{ActRetry, "retry now"})
	}
	if m.Phase != view.Disabled {
		all = append(all, actButton{ActRun, "run now"})
	}
	return append(all, actButton{ActSuspend, "suspend"})
}

// acceptedOf is the answer to a request, with what happens next: it was written, and the actor of module objects has
// not received it yet.
func acceptedOf(module, act string, kept bool) string {
	switch {
	case kept && act != ActResume && act != ActSuspend:
		return fmt.Sprintf("module %s is suspended: the request is kept until it is resumed", module)
	case act == ActSuspend, act == ActResume:
		return fmt.Sprintf("module %s: the request is written; it takes effect within seconds", module)
	}
	return fmt.Sprintf("module %s: the request is written; the operator accepts it within seconds", module)
}
