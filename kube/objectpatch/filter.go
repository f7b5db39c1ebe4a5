package objectpatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"addon-operator/jq"
)

// filterLimit bounds one application of a filter: a jq program need not end. It is far above what
// any useful filter takes, because after it the whole operation fails.
const filterLimit = 10 * time.Second

// Transform applies a filter that has to make exactly one object of an object, as the filter of a
// JQPatch does, and reports whether that is another one. The object stays as it is, and shares
// nothing with next. It checks only that next is a map: whether it is still the same object is for
// the caller.
func Transform(ctx context.Context, filter *jq.Program, object map[string]any) (next map[string]any, changed bool, err error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, false, fmt.Errorf("jqFilter: %w", err)
	}
	// jq has numbers of its own. As json.Number, those that the filter does not touch keep each
	// digit.
	var input any
	decoder := json.NewDecoder(bytes.NewReader(before))
	decoder.UseNumber()
	if err := decoder.Decode(&input); err != nil {
		return nil, false, fmt.Errorf("jqFilter: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, filterLimit)
	defer cancel()
	var results []any
	for result, err := range filter.Results(ctx, input) {
		if err != nil {
			return nil, false, fmt.Errorf("jqFilter: %w", err)
		}
		if results = append(results, result); len(results) > 1 {
			break
		}
	}
	if len(results) != 1 {
		return nil, false, errors.New("jqFilter: it must return exactly one object")
	}
	text, err := jq.Marshal(results[0])
	if err != nil {
		return nil, false, fmt.Errorf("jqFilter: %w", err)
	}
	if err := unmarshalExact(text, &next); err != nil {
		return nil, false, fmt.Errorf("jqFilter: it must return an object: %w", err)
	}
	after, err := json.Marshal(next)
	if err != nil {
		return nil, false, fmt.Errorf("jqFilter: %w", err)
	}
	// Maps are encoded in the order of their keys, so equal texts are equal objects.
	return next, !bytes.Equal(before, after), nil
}
