// Types of what the daemon and its clients say to each other, as the crate `wire` has them.
export type TierName = "ram" | "ssd" | "remote";
export interface CacheResponse { tiers: CacheTier[]; folder?: string; remote?: string; key?: string; prompt_tokens: number; cached_tokens: number; saved_today_ms: number; cut_short: number; dropped: number }
export interface CacheTier { tier: TierName; health: string; reason?: string; budget_bytes: number; used_bytes: number; chunks: number; queued_bytes: number; stored_bytes: number; restored_bytes: number; hit_tokens: number; evicted_bytes: number; written_today_bytes: number; read_bytes_per_second?: number; damaged: number }
export interface CacheContexts { contexts: CacheContext[] }
export interface CacheContext { id: string; owners: string[]; model?: string; tokens: number; bytes: number; ram_bytes: number; ssd_bytes: number; remote_bytes: number; hits: number; last_used_at: string; pinned: boolean }
export interface CacheWhich { context: string }
export interface CacheOwner { owner: string }
export interface CachePrefetched { contexts: number }
export interface CacheClear { tier?: TierName }
export interface CacheDeleted { chunks: number; left: number }
export interface CacheLimits { ram_bytes: CacheLimit<number>; folder: CacheLimit<string>; folder_bytes: CacheLimit<number>; at_next_start: boolean }
export interface CacheLimit<T> { value: T | null; variable?: string }
export interface CacheLimitsChange { ram_bytes?: number; folder?: string; folder_bytes?: number }
export interface CacheTraceRequest { model: string; messages: Message[]; raw?: boolean }
export interface CacheTrace { tokens: number; memory_tokens: number; kept_tokens: number; tiers: TierTokens[]; reason: string; changed_at?: number; kept_text?: string; asked_text?: string }
export interface TierTokens { tier: TierName; tokens: number }
export interface CacheFsck { folder: string; whole: number; whole_bytes: number; damaged: DamagedChunk[]; unread: DamagedChunk[]; orphans: number; orphan_bytes: number; aside: number; fixed: boolean }
export interface DamagedChunk { path: string; reason: string }
export interface DiscoverResponse { models: DiscoveredModel[]; trouble?: string }
export interface DiscoveredModel { name: string; title: string; from: DiscoveredFrom; about?: string; tasks?: string[]; licence?: string; downloads?: number; here: boolean; variants: DiscoveredVariant[] }
export interface DiscoveredVariant { name: string; parameters?: string; quantization?: string; size: number; estimated: boolean; here: boolean }
export type DiscoveredFrom = "library" | "hugging_face";
export interface DownloadsResponse { downloads: Download[]; limit_bytes_per_second?: number }
export interface Download { id: number; model: string; state: DownloadState; total: number; completed: number; bytes_per_second: number; eta_seconds?: number; held_bytes: number; source?: string; trouble?: string; error?: string; detached: boolean }
export type DownloadState = "queued" | "running" | "paused" | "stopped" | "failed" | "done";
export interface DownloadRequest { model: string; insecure?: boolean; sources?: string[] }
export interface DownloadChoice { download: string }
export interface ReorderRequest { download: string; position: number }
export interface CapRequest { bytes_per_second?: number }
export interface HardwareResponse { cpu: HardwareCpu; memory: HardwareMemory; kernels: HardwareKernels; gpus: HardwareGpu[]; disks: HardwareDisk[] }
export interface HardwareCpu { brand: string; architecture: string; physical_cores: number; logical_cores: number; used_cores: number; features: string[] }
export interface HardwareMemory { total_bytes: number; limit_bytes?: number; available_bytes: number; ours_bytes?: number; ours_mapped_bytes?: number; kept_bytes: number }
export interface HardwareKernels { in_use: string; variants: KernelVariant[] }
export interface KernelVariant { name: string; usable: boolean; in_use: boolean; lacks?: string[] }
export interface HardwareGpu { name: string; vendor: string; driver?: string; memory_bytes?: number; used: boolean }
export interface HardwareDisk { holds: DiskHolds; path: string; total_bytes?: number; free_bytes?: number }
export type DiskHolds = "models" | "linked" | "cache" | "data";
export interface LibrariesResponse { libraries: Library[] }
export interface Library { path: string; role: LibraryRole; state: LibraryState; reason?: string; missed: boolean; models: number; skipped?: SkippedFile[] }
export interface SkippedFile { path: string; reason: string }
export type LibraryRole = "own" | "linked" | "found";
export type LibraryState = "present" | "absent" | "unreadable";
export interface UsageResponse { libraries: LibraryUsage[]; total_bytes: number }
export interface LibraryUsage { library: Library; models: ModelUsage[]; model_bytes: number; shared_bytes: number; unreferenced_bytes: number; unreferenced_files: number; partial_bytes: number; partial_files: number; free_bytes: number | null }
export interface ModelUsage { model: string; own_bytes: number; shared_bytes: number; missing: number }
export interface LoginRequest { registry: string; user: string; password: string; token_servers?: string[]; insecure?: boolean }
export interface LogoutRequest { registry: string }
export interface LoginsResponse { logins: KnownLogin[] }
export interface KnownLogin { registry: string; user: string }
export interface MirrorResponse { shares: boolean; fetches: boolean; origins: string[]; key: string; fingerprint: string; hits: number; misses: number; stale: number; fetched_bytes: number; sent_bytes: number; clients: MirrorClient[]; known: KnownKey[]; joined: KnownKey[]; nearby: FoundMachine[] }
export interface MirrorClient { address: string; requests: number; refused: number; open: number; sent_bytes: number; asked_at: string }
export interface FoundMachine { name: string; address: string; version: string; fingerprint: string; joined: boolean; dropped: boolean; seen_at: string; got_bytes: number }
export interface KnownKey { label: string; key: string; fingerprint: string }
export interface InviteResponse { code: string; until: string }
export interface JoinMirrorRequest { address: string; code: string }
export interface AllowRequest { key: string }
export interface ForgetRequest { which: string }
export interface ListedModels { models: TagsModel[]; libraries: Library[] }
export interface DeleteResponse { model: string; freed_bytes: number | null }
export interface ScanRequest { folders?: string[]; apps?: boolean; digests?: boolean }
export type ScanLine = { status: "hashing"; completed: number; total: number } | { status: "done" } & ScannedModels;
export interface ScannedModels { models: FoundModel[]; folders: ScannedFolder[]; skipped: SkippedFile[]; cut?: string }
export interface ScannedFolder { app: string; path: string }
export interface FoundModel { name: string; size: number; app: string; path: string; parts: number; state: FoundState; model?: string; reason?: string; digest?: string; family: string; parameter_size: string; quantization_level: string }
export type FoundState = "new" | "here" | "maybe_here" | "projector" | "adapter" | "broken";
export interface ServerResponse { version: string; started_at: string; addresses: string[]; url: string; lan: boolean; share: boolean; origins: string[]; clients: ServerClient[]; requests: LoggedRequest[] }
export interface ServerClient { name: string; address: string; own: boolean; last_seen_at: string; requests: number }
export interface LoggedRequest { id: number; at: string; client: string; address: string; method: string; path: string; status: number; running: boolean; ms: number; model?: string; first_token_ms?: number; prompt_tokens?: number; cached_tokens?: number; answer_tokens?: number; tokens_per_second?: number }
export interface TicketResponse { url: string }
export interface SessionRequest { ticket: string }
export interface SessionResponse { token: string }
export interface SettingsResponse { path: string; trouble?: string; restart: boolean; settings: Setting[] }
export interface Setting { key: string; group: string; kind: SettingKind; value?: SettingValue; default?: SettingValue; default_about: string; origin: SettingOrigin; origin_name?: string; env?: string; flag?: string; choices?: string[]; unit?: string; applies: SettingApplies; restart: boolean; about: string }
export type SettingKind = "bool" | "number" | "bytes" | "text" | "path" | "choice" | "secret";
export type SettingValue = boolean | number | string;
export type SettingOrigin = "default" | "file" | "environment" | "flag";
export type SettingApplies = "now" | "next_load" | "restart";
export type SettingsChange = Record<string, SettingValue | null>;
export interface SettingsRefused { error: string; wrong: WrongSetting[] }
export interface WrongSetting { key: string; reason: string }
export interface CacheTestRequest { folder?: string; remote?: string }
export interface CacheTested { folder?: TestedPlace; remote?: TestedPlace }
export interface TestedPlace { place: string; works: boolean; reason?: string; free_bytes?: number; round_trip_ms?: number }
export interface GcRequest { dry_run?: boolean; partials?: boolean }
export interface GcResponse { dry_run: boolean; freed_bytes: number; removed: LeftoverFile[]; kept: LeftoverFile[] }
export interface LeftoverFile { path: string; size: number; kind: LeftoverKind; young: boolean }
export type LeftoverKind = "unreferenced" | "partial";
export interface VerifyRequest { models?: string[]; discard?: boolean }
export type VerifyLine = { status: "hashing"; completed: number; total: number } | { status: "done" } & VerifiedModels;
export interface VerifiedModels { models: number; contents: number; bytes: number; flawed: FlawedContents[]; skipped: SkippedFile[] }
export interface FlawedContents { digest: string; kind: string; flaw: FlawKind; reason: string; models: string[]; library: string; own: boolean; discarded: boolean }
export type FlawKind = "missing" | "length" | "damaged" | "unreadable";
export interface DaemonFile { pid: number; started_at: string; addresses: string[]; version: string; token: string }
export interface StatusResponse { version: string; pid: number; started_at: string; addresses: string[]; active_requests: number; loaded_models: number }
export interface OpenRequest { path: string }
export interface OpenResponse { model: string; chat_template: boolean }
export interface ImportRequest { path: string; name?: string; link?: boolean; move?: boolean; force?: boolean }
export type ImportLine = { status: "hashing"; completed: number; total: number } | { status: "copying"; completed: number; total: number } | { status: "success" } & ImportedModel;
export interface ImportedModel { model: string; size: number; way: ImportWay; reason?: string; made_read_only: boolean; moved: boolean; kept_reason?: string; chat_template: boolean }
export type ImportWay = "present" | "reflinked" | "linked" | "moved" | "copied";
export interface LoadRequest { model: string; force?: boolean; keep_alive?: string | number }
export interface TagsResponse { models: TagsModel[] }
export interface TagsModel { name: string; model: string; modified_at: string; size: number; digest: string; details: Details; capabilities?: string[]; origin?: string }
export interface Details { parent_model: string; format: string; family: string; families: string[] | null; parameter_size: string; quantization_level: string; context_length?: number; embedding_length?: number }
export interface PsResponse { models: PsModel[] }
export interface PsModel { name: string; model: string; size: number; digest: string; details: Details; expires_at: string; size_vram: number; context_length: number }
export interface ShowRequest { model?: string; name?: string; verbose?: boolean }
export interface ShowResponse { license?: string; modelfile?: string; parameters?: string; template?: string; template_reason?: string; system?: string; details: Details; messages?: Message[]; model_info: Record<string, unknown>; tensors?: ShowTensor[]; capabilities?: string[]; modified_at: string; origin?: string }
export interface ShowTensor { name: string; type: string; shape: number[] }
export interface Message { role: string; content: string; thinking?: string; images?: unknown[]; tool_calls?: unknown[]; tool_name?: string; tool_call_id?: string }
export interface PullRequest { model?: string; name?: string; insecure?: boolean; stream?: boolean; sources?: string[] }
export interface PullLine { status: string; digest?: string; total?: number; completed?: number; bytes_per_second?: number; source?: string; trouble?: string }
export interface VersionResponse { version: string }
export interface ErrorBody { error: string }
export type DoneReason = "stop" | "length" | "load" | "unload";
