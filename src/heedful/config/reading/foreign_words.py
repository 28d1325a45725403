"""Names that other toolkits give to what our keys do."""

from collections.abc import Mapping
from typing import Final

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {  # our key, and what it is called elsewhere
    "train.steps": (
        "max_steps", "train_steps", "training_steps", "max_update", "max_updates", "num_steps", "total_steps",
    ),
    "train.epochs": ("max_epochs", "max_epoch", "num_epochs", "num_train_epochs", "n_epochs"),
    "train.accumulate": (
        "gradient_accumulation_steps", "gradient_accumulation", "accumulate_grad_batches", "accum_count",
        "update_freq", "batch_multiplier", "grad_accum",
    ),
    "train.optimizer": ("optim", "optimiser", "optimizer_type", "adam_betas", "betas", "adam_beta1", "adam_beta2"),
    "train.schedule": ("lr_scheduler", "lr_scheduler_type", "scheduler", "scheduling", "decay_method"),
    "train.schedule.lr": ("learning_rate", "lr", "max_lr", "base_lr", "initial_learning_rate", "start_lr"),
    "train.schedule.warmup": (
        "warmup_steps", "warmup_updates", "warm_up", "warmup_ratio", "num_warmup_steps", "learning_rate_warmup",
    ),
    "train.optimizer.weight_decay": ("wd", "decoupled_weight_decay"),
    "train.clip_norm": (
        "max_grad_norm", "grad_clip", "clip_grad_norm", "gradient_clip_val", "gradient_clipping",
        "gradient_clipping_threshold", "clip",
    ),
    "train.precision": (
        "fp16", "bf16", "fp32", "half", "amp", "use_amp", "mixed_precision", "dtype", "torch_dtype", "model_dtype",
    ),
    "train.device": ("use_cuda", "use_gpu", "gpu", "gpus", "accelerator", "no_cuda", "use_cpu", "n_gpu"),
    "train.compile": ("torch_compile",),
    "train.seed": ("random_seed", "manual_seed", "data_seed"),
    "train.threads": ("num_threads", "omp_num_threads", "cpu_threads"),
    "train.log_every": ("logging_steps", "logging_freq", "log_interval", "report_every", "log_every_n_steps"),
    "train.checkpoint_every": (
        "save_steps", "save_interval", "save_checkpoint_steps", "checkpoint_frequency", "save_interval_updates",
        "save_every",
    ),
    "train.keep_checkpoints": (
        "save_total_limit", "keep_last_epochs", "keep_checkpoint", "keep_last_n", "keep_best_ckpts",
    ),
    "train.start_from": (
        "train_from", "load_model", "pretrained", "pretrained_model", "restore_file", "finetune_from_model",
        "model_name_or_path", "from_pretrained",
    ),
    "train.adapter": (
        "lora", "peft", "peft_config", "lora_r", "lora_rank", "lora_alpha", "lora_dropout", "target_modules",
    ),
    "train.validation.every": (
        "eval_steps", "valid_steps", "validation_freq", "valid_every", "val_check_interval", "validate_interval",
        "validate_interval_updates", "evaluation_strategy", "eval_strategy",
    ),
    "train.validation.metric": (
        "metric_for_best_model", "best_checkpoint_metric", "early_stopping_metric", "eval_metric", "eval_metrics",
        "optimized_metric",
    ),
    "train.validation.patience": (
        "early_stopping", "early_stop", "early_stopping_patience", "max_num_checkpoint_not_improved",
    ),
    "train.label_smoothing": ("label_smoothing_factor", "smoothing"),
    "train.freeze": ("freeze_encoder", "freeze_layers"),
    "train.masking.share": ("mlm_probability", "mask_prob", "masked_lm_prob"),
    "data.batch_tokens": (
        "batch_size", "max_tokens", "per_device_train_batch_size", "train_batch_size", "per_device_batch_size",
        "tokens_per_batch", "micro_batch_size",
    ),
    "data.max_length": (
        "max_seq_length", "max_seq_len", "max_sent_length", "max_source_length", "max_target_length", "max_len",
        "src_seq_length", "tgt_seq_length", "block_size", "context_length",
    ),
    "data.train": ("train_file", "train_data", "trainpref", "training_data", "dataset"),
    "data.valid": ("valid_data", "validation_file", "validation_data", "dev", "dev_data", "validpref", "eval_file"),
    "data.test": ("test_file", "test_data", "testpref"),
    "data.train.separator": ("delimiter", "sep"),
    "data.train.header": ("has_header", "skip_header", "header_row"),
    "data.lowercase": ("do_lower_case", "lower_case", "lower"),
    "data.folder": ("data_dir", "data_path"),
    "tokenizer.size": (
        "vocab_size", "voc_limit", "vocabulary_size", "num_words", "src_vocab_size", "tgt_vocab_size", "bpe_size",
    ),
    "tokenizer.joint": ("share_vocab", "joined_dictionary", "joint_vocab", "share_vocabulary"),
    "tokenizer.min_count": ("voc_min_freq", "min_frequency", "min_freq", "words_min_frequency"),
    "model.family": ("model_type", "arch", "architecture"),
    "model.width": (
        "d_model", "hidden_size", "hidden_dim", "embedding_dim", "emb_dim", "n_embd", "embed_dim", "model_dim",
        "encoder_embed_dim", "word_vec_size", "rnn_size", "num_embed", "dim",
    ),
    "model.layers": (
        "num_layers", "n_layers", "n_layer", "num_hidden_layers", "encoder_layers", "enc_layers", "num_encoder_layers",
        "depth",
    ),
    "model.decoder_layers": ("dec_layers", "num_decoder_layers"),
    "model.heads": (
        "num_heads", "n_heads", "n_head", "nhead", "num_attention_heads", "attention_heads", "encoder_attention_heads",
    ),
    "model.inner": (
        "d_ff", "ffn_dim", "ff_size", "dim_feedforward", "intermediate_size", "encoder_ffn_embed_dim",
        "feed_forward_dim", "transformer_ff", "ffn_embed_dim",
    ),
    "model.dropout": ("dropout_rate", "drop", "hidden_dropout_prob", "resid_pdrop", "dropout_p"),
    "model.dropout_attention": ("attention_dropout", "attention_probs_dropout_prob", "attn_dropout", "attn_pdrop"),
    "model.dropout_inner": ("activation_dropout", "relu_dropout"),
    "model.norm": ("pre_norm", "prenorm", "norm_first", "encoder_normalize_before", "normalize_before", "layer_norm"),
    "model.activation": ("hidden_act", "activation_function", "activation_fn"),
    "model.tie": (
        "tie_word_embeddings", "share_all_embeddings", "share_embeddings", "tied_embeddings", "tied_softmax",
        "weight_tying", "share_decoder_input_output_embed", "tie_weights",
    ),
    "model.positions": ("position_encoding", "position_embedding_type", "positional_encoding", "pos_enc"),
    "model.max_positions": ("max_position_embeddings", "max_source_positions", "n_positions"),
    "model.bidirectional": ("brnn", "bidir"),
    "decode.beam": ("beam_size", "num_beams", "beam_width", "beam_alpha"),
    "decode.length_penalty": ("lenpen", "alpha_length", "length_penalty_alpha", "beam_search_alpha"),
    "decode.no_repeat": ("no_repeat_ngram_size", "block_ngram_repeat"),
    "decode.max_extra": ("max_new_tokens", "max_output_length", "max_len_b", "max_decoding_length"),
    "decode.min_length": ("min_output_length", "min_new_tokens", "min_len"),
}  # fmt: skip

FOREIGN_WORDS: Final[Mapping[str, str]] = {name: ours for ours, names in _NAMES.items() for name in names}


def our_key(name: str) -> str | None:
    """Return our key for a name of another toolkit; None for a name that is not known."""
    return FOREIGN_WORDS.get(name.replace("-", "_"))
