package operator

import (
	"testing"
	"testing/fstest"
)

func TestGoMemoryLimit(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups":   {nil, 0},
		"version 2":           {map[string]string{"sys/fs/cgroup/memory.max": "536870912\n"}, 483183810},
		"version 2, no limit": {map[string]string{"sys/fs/cgroup/memory.max": "max\n"}, 0},
		"version 1":           {map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n"}, 900000},
		"version 1, no limit": {map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"nonsense":            {map[string]string{"sys/fs/cgroup/memory.max": "-5"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := goMemoryLimit(root); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
