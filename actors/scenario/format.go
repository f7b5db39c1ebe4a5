package scenario

import (
	"time"

	"addon-operator/actors/scenario/match"
	"addon-operator/actors/scenario/standin"
)

// Scenario is a test of a file, or a row of its table. The schema of files is
// module-test.v1.schema.json, which also explains the keys; the types below decode what it has
// accepted, and their comments say only what the zero value means. A scenario does not change when
// it is played, and may be played again.
type Scenario struct {
	Description string `json:"description"`
	Given       given  `json:"given"`
	Steps       []step `json:"steps"`
	Expect      expect `json:"expect"`

	path   string // of the file
	name   string // MODULE/FILE/TEST/ROW
	unit   unit
	broken error // why the file is no scenario
}

// Name is MODULE/FILE, followed by /TEST in a file with several tests, and by /ROW in a test with a
// table.
func (s *Scenario) Name() string { return s.name }

// Path is the absolute path of the file.
func (s *Scenario) Path() string { return s.path }

// given is what is there before the operator starts.
type given struct {
	KubernetesVersion string                     `json:"kubernetesVersion"`
	Objects           []match.Tree               `json:"objects"`
	ConfigMap         match.Tree                 `json:"configMap"`
	Values            match.Tree                 `json:"values"`
	FromGlobalHooks   match.Tree                 `json:"fromGlobalHooks"`
	Modules           []string                   `json:"modules"`
	GlobalHooks       bool                       `json:"globalHooks"`
	Env               map[string]string          `json:"env"`
	Commands          map[string]standin.Answers `json:"commands"`
	HTTP              []standin.HTTPAnswer       `json:"http"`
	Clock             time.Time                  `json:"clock"`        // zero: startOfTime
	StrictFields      *bool                      `json:"strictFields"` // nil: true
}

// step is one thing that happens; exactly one of its fields is set.
type step struct {
	Apply     match.List[match.Tree] `json:"apply"`
	Delete    *Reference             `json:"delete"`
	ConfigMap match.Tree             `json:"configMap"`
	Tick      string                 `json:"tick"`
	Advance   string                 `json:"advance"`
	FailHook  *failHook              `json:"failHook"`
	FailHelm  *failHelm              `json:"failHelm"`
	Retry     bool                   `json:"retry"`
	Restart   bool                   `json:"restart"`
	Expect    *expect                `json:"expect"`
}

type failHook struct {
	Hook  string `json:"hook"`
	Times int    `json:"times"` // 0: once
}

type failHelm struct {
	Module string `json:"module"` // "": that of the scenario
	Times  int    `json:"times"`  // 0: once
}

// expect is what must hold at one moment. What is zero is not compared, with three exceptions: a
// failure, a refusal, or an unknown field that is not expected is a problem.
type expect struct {
	Hooks     []run             `json:"hooks"`
	Commands  []standin.Call    `json:"commands"`
	HTTP      []standin.Request `json:"http"`
	Values    match.Tree        `json:"values"`
	ConfigMap match.Tree        `json:"configMap"`
	Objects   []match.Tree      `json:"objects"`
	Absent    []Reference       `json:"absent"`
	Rendered  string            `json:"rendered"`
	Metrics   []metric          `json:"metrics"`
	Log       []match.Value     `json:"log"`
	Modules   map[string]string `json:"modules"`
	Failing   map[string]string `json:"failing"`
	Refused   string            `json:"refused"`
}

// run is an expected run of a hook.
type run struct {
	Hook          string      `json:"hook"`    // the end of its path
	Binding       string      `json:"binding"` // "": any
	Context       match.Tree  `json:"context"` // the last one of the run
	Contexts      match.Value `json:"contexts"`
	ValuesPatch   match.Value `json:"valuesPatch"`
	ConfigPatch   match.Value `json:"configPatch"`
	ObjectPatches match.Value `json:"objectPatches"`
	Fails         any         `json:"fails"` // nil, bool or text
	Times         *int        `json:"times"` // nil: at least one, see unmatched
}

// metric is an expected series of what hooks report.
type metric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"` // others may be there
	Value  *float64          `json:"value"`  // nil: any
}
