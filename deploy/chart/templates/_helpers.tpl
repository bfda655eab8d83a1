{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- define "exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "exporter.fullname" -}}
{{- $name := include "exporter.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "exporter.selector" -}}
app.kubernetes.io/name: {{ include "exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "exporter.labels" -}}
{{- $chart := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 -}}
{{- $own := dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" $chart -}}
{{- merge (include "exporter.selector" . | fromYaml) $own .Values.commonLabels | toYaml -}}
{{- end -}}

{{- define "exporter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "exporter.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "exporter.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The capabilities of the tiers, as a JSON list; any of them needs root, because Kubernetes gives them to no other user. */ -}}
{{- define "exporter.capabilities" -}}
{{- $c := list -}}
{{- with .Values.tiers -}}
{{- if .bus }}{{ $c = append $c "SYS_ADMIN" }}{{ end -}}
{{- if or .jobs .probes }}{{ $c = concat $c (list "SYS_PTRACE" "DAC_READ_SEARCH") }}{{ end -}}
{{- if .probes }}{{ $c = concat $c (list "SETUID" "SETGID" "KILL" "CHOWN" "IPC_LOCK") }}{{ end -}}
{{- end -}}
{{- $c | toJson -}}
{{- end -}}

{{- define "exporter.ping" -}}
{{- printf "%s-ping" (include "exporter.fullname" . | trunc 58 | trimSuffix "-") -}}
{{- end -}}

{{- /* The configuration of the site, and where it has no targets for ping, those of the chart. */ -}}
{{- define "exporter.config" -}}
{{- $c := deepCopy .Values.config -}}
{{- if and .Values.tiers.ping (not (or $c.rdma_ping.target_files $c.rdma_ping.target_names)) -}}
{{- if .Values.ping.targets -}}
{{- $_ := set $c.rdma_ping "target_files" (list "/etc/gpufabric_exporter/ping/targets.json") -}}
{{- else -}}
{{- $_ := set $c.rdma_ping "target_names" (list (printf "%s:%v" (include "exporter.ping" .) .Values.web.port)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $c -}}
{{- end -}}

{{- define "exporter.scheme" -}}
{{- ternary "https" "http" .Values.web.tls -}}
{{- end -}}

{{- /* The nodes of the pods: nodeSelector and affinity. */ -}}
{{- define "exporter.nodes" -}}
nodeSelector:
  {{- merge (dict) .Values.nodeSelector (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- if kindIs "invalid" .Values.affinity }}
affinity: # GPUs or RDMA devices, by the labels of the GPU operator and of node-feature-discovery
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions: [{key: nvidia.com/gpu.present, operator: In, values: ["true"]}]
        - matchExpressions: [{key: feature.node.kubernetes.io/pci-10de.present, operator: In, values: ["true"]}]
        - matchExpressions: [{key: feature.node.kubernetes.io/rdma.available, operator: In, values: ["true"]}]
{{- else if .Values.affinity }}
affinity:
  {{- toYaml .Values.affinity | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What the pods ask for: the defaults of the tiers, with the keys of the site; null takes one away. */ -}}
{{- define "exporter.resources" -}}
{{- $r := dict "requests" (dict "cpu" "20m" "memory" (ternary "96Mi" "64Mi" .Values.tiers.gpu)) -}}
{{- if not .Values.tiers.probes -}}
{{- $_ := set $r "limits" (dict "memory" (ternary "512Mi" "256Mi" .Values.tiers.gpu)) -}}
{{- end -}}
{{- range $kind, $of := .Values.resources -}}
{{- if kindIs "map" $of -}}
{{- $all := get $r $kind | default dict -}}
{{- range $key, $value := $of -}}
{{- if kindIs "invalid" $value -}}{{- $_ := unset $all $key -}}{{- else -}}{{- $_ := set $all $key $value -}}{{- end -}}
{{- end -}}
{{- $_ := set $r $kind $all -}}
{{- else if kindIs "invalid" $of -}}
{{- $_ := unset $r $kind -}}
{{- else -}}
{{- $_ := set $r $kind $of -}}
{{- end -}}
{{- end -}}
{{- toYaml $r -}}
{{- end -}}

{{- /* The probe of the kubelet: over HTTP, or with the program itself where HTTP would be refused. */ -}}
{{- define "exporter.probe" -}}
{{- $path := index . 1 -}}
{{- with index . 0 -}}
{{- if .Values.web.authentication -}}
exec:
  command: [/bin/gpufabric_exporter, healthcheck, --url={{ include "exporter.scheme" . }}://localhost:{{ .Values.web.port }}{{ $path }}{{ if .Values.web.tls }}, --tls.insecure-skip-verify{{ end }}]
{{- else -}}
httpGet:
  path: {{ $path }}
  port: metrics
  scheme: {{ include "exporter.scheme" . | upper }}
{{- end }}
timeoutSeconds: 5
{{- end -}}
{{- end -}}

{{- /* The seconds of a duration of Prometheus, as in 1m30s. */ -}}
{{- define "exporter.seconds" -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = addf $sum (mulf (regexFind "[0-9]+" . | float64) (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- /* Rules that the schema cannot express. */ -}}
{{- define "exporter.check" -}}
{{- $v := .Values -}}
{{- if and (or $v.tiers.jobs $v.tiers.probes) (not $v.tiers.gpu) -}}
{{- fail "tiers.jobs and tiers.probes ask the GPU driver who uses the GPUs: set tiers.gpu to true, too" -}}
{{- end -}}
{{- if and $v.tiers.probes (not $v.config.probes) -}}
{{- fail "tiers.probes gives the privileges only: set config.probes.enabled to true, too (docs/PROBES.md)" -}}
{{- end -}}
{{- $off := and (kindIs "map" $v.config.probes) (eq (toString (dig "enabled" true $v.config.probes)) "false") -}}
{{- if and $v.config.probes (not $off) (not $v.tiers.probes) -}}
{{- fail "config.probes needs the privileges of tiers.probes: set it to true, too" -}}
{{- end -}}
{{- $ping := and $v.config.rdma_ping (ne (toString (dig "enabled" false $v.config.rdma_ping)) "false") -}}
{{- if ne $v.tiers.ping (not (empty $ping)) -}}
{{- fail "tiers.ping gives the device nodes, and config.rdma_ping.enabled uses them: set both or neither" -}}
{{- end -}}
{{- if and $v.tiers.ping (not $v.tiers.gpu) -}}
{{- fail "tiers.ping has its device nodes from the runtime class: set tiers.gpu to true, too" -}}
{{- end -}}
{{- if and $v.tiers.ping (not (or $v.web.secret $v.config.rdma_ping.plain)) -}}
{{- fail "with tiers.ping nodes would tell everyone who asks where they answer: set web.secret, or config.rdma_ping.plain to true" -}}
{{- end -}}
{{- if and $v.ping.targets (not $v.tiers.ping) -}}
{{- fail "ping.targets is for tiers.ping: set it to true, too" -}}
{{- end -}}
{{- range $key, $_ := include "exporter.selector" . | fromYaml -}}
{{- if hasKey $v.podLabels $key -}}
{{- fail (printf "podLabels has %s, by which the DaemonSet knows its pods: leave it out, or set nameOverride" $key) -}}
{{- end -}}
{{- end -}}
{{- range $v.extraArgs -}}
{{- $flag := regexFind "^--[^= ]+" . -}}
{{- with get (dict "--web.listen-address" "web.port" "--web.config.file" "web.secret" "--config.file" "config" "--path.sysfs" "tiers") $flag -}}
{{- fail (printf "extraArgs has %s, which the chart sets itself: set the value %s instead" $flag .) -}}
{{- end -}}
{{- end -}}
{{- if gt (include "exporter.seconds" $v.podMonitor.scrapeTimeout | float64) (include "exporter.seconds" $v.podMonitor.interval | float64) -}}
{{- fail (printf "podMonitor.scrapeTimeout=%s is longer than podMonitor.interval=%s, and Prometheus would refuse it: set a shorter one" $v.podMonitor.scrapeTimeout $v.podMonitor.interval) -}}
{{- end -}}
{{- if and (or $v.web.tls $v.web.authentication) (not $v.web.secret) -}}
{{- fail "web.tls and web.authentication say what web.yml of the Secret in web.secret has: set web.secret, too" -}}
{{- end -}}
{{- if not (regexMatch "gpu.?fabric" (include "exporter.fullname" .)) -}}
{{- fail (printf "the name %s is that of the scrape job, which the alert GpuFabricExporterDown expects to contain gpufabric: leave fullnameOverride and nameOverride empty, or let it contain it" (include "exporter.fullname" .)) -}}
{{- end -}}
{{- end -}}
