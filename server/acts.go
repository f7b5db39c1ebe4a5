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

// PageTokenHeader carries the token that the live page was given on the debug address. Pages of other sites cannot read it, nor
// send the header, so who has it was shown the page (J20).
const PageTokenHeader = "Addon-Operator-Page-Token"

// The requests that a person can make of a module on the live page.
const (
	ActRun     = "run"
	ActRetry   = "retry"
	ActSuspend = "suspend"
	ActResume  = "resume"
)

func acts() []string { return []string{ActRun, ActRetry, ActSuspend, ActResume} }

// Act writes a request of a person to the object of a module. kept: the module is suspended, so the request waits until it is
// resumed (J16, J17).
type Act func(ctx context.Context, module, act string) (kept bool, err error)

// MayNotError is the error of an [Act] that the API server does not let the operator do, or has no kind for.
type MayNotError struct{ Err error }

// Error implements error.
func (e *MayNotError) Error() string { return e.Err.Error() }

// Unwrap serves errors.As.
func (e *MayNotError) Unwrap() error { return e.Err }

// actPages let people request something of a module.
type actPages struct{ owners }

// request answers POST /module/NAME/request.
func (s actPages) request(r *http.Request) (any, error) {
	if s.Act == nil {
		return nil, notFound("this operator takes no requests")
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(PageTokenHeader)), []byte(s.pageToken)) != 1 {
		return nil, &pageError{http.StatusForbidden, errors.New("only the live page of this operator makes requests here, and it has not: load it again. In scripts use addon-operator run, retry, suspend and resume, or kubectl")}
	}
	if local, tcp := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); tcp && !local.IP.IsLoopback() {
		return nil, &pageError{http.StatusForbidden, errors.New("requests are taken on loopback only, as through kubectl port-forward: who reaches this address need not have the right to make them")}
	}
	asked, name := r.URL.Query().Get("do"), r.PathValue("name")
	if !slices.Contains(acts(), asked) {
		return nil, badRequest("do is one of run, retry, suspend and resume, not %q", asked)
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
	said := saidOf(name, asked, kept)
	return display{map[string]string{"said": said}, lines([]string{said})}, nil
}

// actButton is a button of the detail of a module.
type actButton struct{ Do, Text string }

// actButtons are what makes sense for a module now.
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

// saidOf says what follows a request that was written.
func saidOf(module, act string, kept bool) string {
	switch {
	case kept && act != ActResume && act != ActSuspend:
		return fmt.Sprintf("module %s is suspended: the request is kept until it is resumed", module)
	case act == ActSuspend, act == ActResume:
		return fmt.Sprintf("module %s: the request is written; it is in force within seconds", module)
	}
	return fmt.Sprintf("module %s: the request is written; the operator takes it within seconds", module)
}
