package jq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/itchyny/gojq"
)

// maxExpression bounds the text of a program, in bytes: the library parses and compiles nested ones recursively.
const maxExpression = 64 << 10

// olderFunctions defines those functions of the jq program that the library leaves out and that
// existing filters use. Keys are sorted here in any case; output to stderr is dropped.
const olderFunctions = `def keys_unsorted: keys; def leaf_paths: paths(scalars); def recurse_down: recurse;
def debug: .; def stderr: .; `

// Program is a compiled jq program. It is safe for concurrent use; one run of it follows the other.
type Program struct {
	code *gojq.Code
	run  sync.Mutex
	made int // by the guards in this run
}

// Compile compiles a program. Modules that it imports are searched in the directories of library; without any,
// imports fail. The functions that are added come first, so one of the same name in the program takes their place.
func Compile(expression string, library ...string) (*Program, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("it has more than %d KiB", maxExpression>>10)
	}
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, err
	}
	added, err := gojq.Parse(olderFunctions + guards + ".")
	if err != nil {
		return nil, fmt.Errorf("functions that are added: %w", err)
	}
	guard(query)
	query.FuncDefs = append(added.FuncDefs, query.FuncDefs...)
	p := &Program{}
	loader := gojq.WithModuleLoader(modules{gojq.NewModuleLoader(library)})
	p.code, err = gojq.Compile(query, loader, gojq.WithFunction(within, 1, 3, p.within))
	return p, err
}

// Results runs the program for an input, which it does not change. An error is the last result. "halt" ends a program,
// and is no error.
func (p *Program) Results(ctx context.Context, input any) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		p.run.Lock()
		defer p.run.Unlock()
		p.made = 0
		for results := p.code.RunWithContext(ctx, input); ; {
			result, more := results.Next()
			err, failed := result.(error)
			if halt, ok := errors.AsType[*gojq.HaltError](err); !more || ok && halt.Value() == nil {
				return
			}
			if failed {
				yield(nil, err)
				return
			}
			if !yield(result, nil) {
				return
			}
		}
	}
}

// Marshal writes a result as JSON. It refuses what is too large or nested too deep: whoever reads it later would fail.
func Marshal(result any) (json.RawMessage, error) {
	if size(result, maxDepth, maxValue) > maxValue {
		return nil, errTooLarge
	}
	return gojq.Marshal(result)
}
