{{- define "tidegate.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tidegate.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "tidegate.name" .) }}{{ else }}{{ required "serviceAccount.name: name the ServiceAccount, or set serviceAccount.create" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "tidegate.image" -}}
{{- with .Values.image }}{{ if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{- /* What an operator may do in a namespace that it watches. */ -}}
{{- define "tidegate.rules" -}}
- apiGroups: [tidegate.dev]
  resources: [limits, queues]
  verbs: [get, list, watch]
- apiGroups: [tidegate.dev]
  resources: [limits/status, queues/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments/scale]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{- /* Where to read on about an alert: in the page that is served somewhere, or else in the file of the sources. */ -}}
{{- define "tidegate.runbook" -}}
{{- $page := (index . 0).Values.monitoring.prometheusRule.runbook }}
{{- if $page }}runbook_url: {{ printf "%s#%s" $page (index . 1) | quote }}{{ else }}runbook: {{ printf "docs/kubernetes.md#%s" (index . 1) | quote }}{{ end }}
{{- end }}
