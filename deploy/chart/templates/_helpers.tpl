{{- define "operator.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
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
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
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

{{- define "operator.leaseName" -}}
{{ .Values.options.ADDON_OPERATOR_HA_LEASE_NAME | default "addon-operator-leader-election" }}
{{- end }}

{{- define "operator.configSecret" -}}
{{ .Values.options.ADDON_OPERATOR_CONFIG_SECRET | default (include "operator.configMap" . | trim) }}
{{- end }}
