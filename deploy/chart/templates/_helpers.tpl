{{- define "operator.name" -}}
{{- $name := .Values.fullnameOverride | default .Values.nameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]" $name) }}{{ fail (printf "%s is not a valid name for a Service: set fullnameOverride to one that begins with a letter" $name) }}{{ end -}}
{{- $name -}}
{{- end }}

{{- define "operator.account" -}}
{{- if .Values.serviceAccount.name -}}
{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create -}}
{{ include "operator.name" . }}
{{- else -}}
default
{{- end }}
{{- end }}

{{- define "operator.selector" -}}
app.kubernetes.io/name: addon-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.labelsAnd" (list . dict "") }}
{{- end }}

{{- /* The same with those of a value, which is named, and wins over commonLabels. */ -}}
{{- define "operator.labelsAnd" -}}
{{- $root := index . 0 -}}
{{- $of := dict "commonLabels" $root.Values.commonLabels (index . 2) (index . 1) -}}
{{- range $value, $labels := $of }}
{{- range list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- if hasKey ($labels | default dict) . }}{{ fail (printf "%s has the label %s, which is the chart's own: remove it" $value .) }}{{ end -}}
{{- end }}
{{- end -}}
{{ include "operator.selector" $root }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with merge (dict) (index . 1 | default dict) ($root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Not empty with several replicas. */ -}}
{{- define "operator.ha" -}}
{{- if gt (int .Values.replicas) 1 }}
{{- if not .Values.lease }}{{ fail "several replicas need the lease: set lease to true, or replicas to 1" }}{{ end -}}
yes{{ end -}}
{{- end }}

{{- /* All metrics have this prefix. */ -}}
{{- define "operator.prefix" -}}
{{ .Values.options.ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX | default "addon_operator_" }}
{{- end }}

{{- define "operator.configMap" -}}
{{ .Values.options.ADDON_OPERATOR_CONFIG_MAP | default "addon-operator" }}
{{- end }}

{{/* What the operator may do with the kind that a HELM_DRIVER stands for. */}}
{{- define "operator.verbsOfRecords" -}}
{{- $driver := (index . 0).Values.options.HELM_DRIVER | default "secret" | lower -}}
{{ hasPrefix (index . 1) $driver | ternary "[get, list, watch, create, update, patch, delete]" "[create]" }}
{{- end }}

{{- /* How modules reach the Pod: image, volume, copy or git. */ -}}
{{- define "operator.delivery" -}}
{{- $m := .Values.modules -}}
{{- if ne $m.source "image" }}
{{- range list "MODULES_DIR" "GLOBAL_HOOKS_DIR" "ADDON_OPERATOR_WORKING_DIR" }}
{{- if hasKey $.Values.options . }}{{ fail (printf "options.%s and modules.source %s are mutually exclusive: remove the option, or set modules.source to image" . $m.source) }}{{ end -}}
{{- end }}
{{- end }}
{{- if and (ne $m.source "artifact") $m.artifact.reference }}{{ fail (printf "modules.artifact.reference is set, but modules.source is %s: set it to artifact, or remove the reference" $m.source) }}{{ end -}}
{{- if and (ne $m.source "git") $m.git.repository }}{{ fail (printf "modules.git.repository is set, but modules.source is %s: set it to git, or remove the repository" $m.source) }}{{ end -}}
{{- if eq $m.source "artifact" }}
{{- if not $m.artifact.reference }}{{ fail "modules.source is artifact: set modules.artifact.reference to the image that has modules/ and global-hooks/" }}{{ end -}}
{{- if ne $m.artifact.mount "auto" }}{{ $m.artifact.mount }}{{ else if semverCompare ">=1.35.0-0" .Capabilities.KubeVersion.Version }}volume{{ else }}copy{{ end -}}
{{- else if eq $m.source "git" }}
{{- if not $m.git.repository }}{{ fail "modules.source is git: set modules.git.repository to the URL of the repository that has modules/ and global-hooks/" }}{{ end -}}
{{- if and (ne $m.git.auth "none") (not $m.git.secret) }}{{ fail (printf "modules.git.auth is %s: set modules.git.secret to the name of the Secret" $m.git.auth) }}{{ end -}}
{{- if and (eq $m.git.auth "none") $m.git.secret }}{{ fail "modules.git.secret is set, but modules.git.auth is none: set it to basic or ssh" }}{{ end -}}
git
{{- else }}image{{ end -}}
{{- end }}

{{- /* The directory with modules/ and global-hooks/; empty for those of the image. */ -}}
{{- define "operator.delivered" -}}
{{- $how := include "operator.delivery" . -}}
{{- if eq $how "git" }}{{ printf "/delivered/current/%s" .Values.modules.git.path | trimSuffix "/" -}}
{{- else if eq $how "volume" }}{{ printf "/delivered/%s" .Values.modules.artifact.path | trimSuffix "/" -}}
{{- else if eq $how "copy" }}/delivered{{ end -}}
{{- end }}

{{- /* Variables of git-sync. */ -}}
{{- define "operator.gitEnv" -}}
- name: GITSYNC_REPO
  value: {{ .repository | quote }}
- name: GITSYNC_REF
  value: {{ .ref | quote }}
- name: GITSYNC_ROOT
  value: /delivered
- name: GITSYNC_LINK # is pointed at another worktree in one step
  value: current
- name: GITSYNC_DEPTH
  value: "1"
- name: GITSYNC_PERIOD
  value: {{ .period | quote }}
- name: HOME
  value: /tmp
{{- if eq .auth "basic" }}
- name: GITSYNC_USERNAME
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: username
- name: GITSYNC_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: password
{{- else if eq .auth "ssh" }}
- name: GITSYNC_SSH_KEY_FILE
  value: /etc/git-secret/ssh-privatekey
- name: GITSYNC_SSH_KNOWN_HOSTS_FILE
  value: /etc/git-secret/known_hosts
{{- end }}
{{- end }}

{{- define "operator.gitMounts" -}}
- name: delivered
  mountPath: /delivered
- name: git-tmp
  mountPath: /tmp
{{- if eq .auth "ssh" }}
- name: git-secret
  mountPath: /etc/git-secret
  readOnly: true
{{- end }}
{{- end }}

{{- /* Not empty where the cluster chooses user and group of Pods. */ -}}
{{- define "operator.openshift" -}}
{{- $on := toString .Values.openshift -}}
{{- if or (eq $on "true") (and (eq $on "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}yes{{ end -}}
{{- end }}

{{- define "operator.podSecurity" -}}
{{- $all := .Values.podSecurityContext -}}
{{- if include "operator.openshift" . }}{{ $all = omit $all "runAsUser" "runAsGroup" "fsGroup" }}{{ end -}}
{{ toYaml $all }}
{{- end }}

{{- /* Of all containers. */ -}}
{{- define "operator.containerSecurity" -}}
{{- $all := .Values.containerSecurityContext -}}
{{- if include "operator.openshift" . }}{{ $all = omit $all "runAsUser" "runAsGroup" }}{{ end -}}
{{ toYaml $all }}
{{- end }}

{{- define "operator.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" .Values.image.repository $tag }}{{ end -}}
{{- end }}

{{- /* How Prometheus asks for metrics. */ -}}
{{- define "operator.endpoint" -}}
- port: metrics
  {{- if .root.Values.secureMetrics.enabled }}
  scheme: https
  tlsConfig:
    insecureSkipVerify: true # Pods are asked by their addresses, for which there is no certificate
  authorization:
    credentials:
      name: {{ include "operator.name" .root }}-metrics-reader
      key: token
  {{- end }}
  path: /metrics # those of hooks are on it, too
  interval: {{ .interval }}
  honorLabels: true # hooks say for themselves whose namespace a metric is about
{{- end }}

{{- define "operator.configSecret" -}}
{{ .Values.options.ADDON_OPERATOR_CONFIG_SECRET | default (include "operator.configMap" . | trim) }}
{{- end }}

{{- /* The Pod of helm test is not one of the operator's. */ -}}
{{- define "operator.testSelector" -}}
app.kubernetes.io/name: addon-operator-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}
