package operator

import (
	"testing"
	"testing/fstest"
)

func TestGoMemoryLimit(t *testing.T) {
	const unlimited = "9223372036854771712\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups":      {nil, 0},
		"version 2, a container": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 483183810},
		"version 2, no limit":    {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"version 2, without a namespace: a parent has the smaller limit": {map[string]string{
			"proc/self/cgroup":                             "0::/kubepods/pod1/a\n",
			"sys/fs/cgroup/kubepods/pod1/a/memory.max":     "2000\n",
			"sys/fs/cgroup/kubepods/pod1/memory.max":       "1000\n",
			"sys/fs/cgroup/kubepods/memory.max":            "max\n",
			"sys/fs/cgroup/system.slice/other/memory.max":  "10\n",
			"sys/fs/cgroup/kubepods/pod1/a/b/c/memory.max": "10\n",
		}, 900},
		"version 1, the path is that of the machine": {map[string]string{
			"proc/self/cgroup":                            "12:cpu,cpuacct:/kubepods/a\n5:memory:/kubepods/a\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":  "1000000\n",
			"sys/fs/cgroup/cpu/kubepods/a/cpu.cfs_period": "10\n",
		}, 900000},
		"version 1, no limit": {map[string]string{"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": unlimited}, 0},
		"nonsense":            {map[string]string{"proc/self/cgroup": "x\n\n:::", "sys/fs/cgroup/memory.max": "-5"}, 0},
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
