package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"addon-operator/jq"
)

const (
	// filterLimit bounds one application of a filter by Apply. A filter that needs a second for one
	// object loops without end, or would delay all other watches.
	filterLimit = time.Second
	// distrust is the limit for a filter that has exceeded its limit within the last penalty. An
	// ordinary filter needs far less than a millisecond; one that loops on each of a thousand
	// objects must not take a quarter of an hour.
	distrust = 10 * time.Millisecond
	penalty  = time.Minute
)

// Filter is a compiled jq expression. It is safe for concurrent use. Of files it has access only to the modules that it
// imports, which are read when it is compiled. A nil *Filter is the filter of a binding without jqFilter.
type Filter struct {
	source     string
	program    *jq.Program
	distrusted atomic.Int64 // until when, in milliseconds of Unix time
}

// CompileFilter compiles a jq expression once for all objects. Modules that it imports are searched
// in the directories of library; without any, imports fail.
func CompileFilter(expression string, library ...string) (*Filter, error) {
	program, err := jq.Compile(expression, library...)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", expression, err)
	}
	return &Filter{source: expression, program: program}, nil
}

// String returns the expression as the hook wrote it; "" for a nil filter.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.source
}

// Apply applies the filter to one object, which it does not change. No result gives null, one
// result that value, several an array of them (C37). A nil filter returns nil. An error is about
// this object only, except that after a timeout the filter has less time for a minute.
func (f *Filter) Apply(object map[string]any) (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	limit := filterLimit
	if time.Now().UnixMilli() < f.distrusted.Load() {
		limit = distrust
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result, err := f.apply(ctx, object)
	if errors.Is(err, context.DeadlineExceeded) {
		f.distrusted.Store(time.Now().Add(penalty).UnixMilli())
		return nil, fmt.Errorf("jq expression %q: no result within %s; does it loop forever?", f.source, limit)
	}
	return result, err
}

// apply is Apply with a context as the only limit.
func (f *Filter) apply(ctx context.Context, object map[string]any) (json.RawMessage, error) {
	input, err := jqValue(object)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", f.source, err)
	}
	var results []any
	for result, err := range f.program.Results(ctx, input) {
		if err != nil {
			return nil, fmt.Errorf("jq expression %q: %w", f.source, err)
		}
		results = append(results, result)
	}
	var result any = results
	switch len(results) {
	case 0:
		return json.RawMessage("null"), nil
	case 1:
		result = results[0]
	}
	text, err := jq.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: its result: %w", f.source, err)
	}
	return text, nil
}

// jqValue copies a tree with the types that gojq accepts: it panics on others, int64 included.
// Objects come from a shared cache, so nothing is changed in place.
func jqValue(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case nil, bool, string, int, float64, json.Number:
		return v, nil
	case int64:
		return int(v), nil
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, element := range v {
			if copied[key], err = jqValue(element); err != nil {
				return nil, err
			}
		}
		return copied, nil
	case []any:
		copied := make([]any, len(v))
		for i, element := range v {
			if copied[i], err = jqValue(element); err != nil {
				return nil, err
			}
		}
		return copied, nil
	}
	return nil, fmt.Errorf("the object contains a %T, which is not a JSON value", value)
}
