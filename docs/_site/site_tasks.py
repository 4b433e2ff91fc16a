"""Public names by what people want to do: the order of the reference's first page.

A name that two packages give to different things says which: ``federation.Plan``.
"""

TASKS = {
    "Classify": """
        PATEClassifier PrivateKNN SparseVectorPATE MeasuredAccuracy measured_accuracy ABSTAIN Queries STRATEGIES
        least_sure select_queries LabelJob VoteJob predict_file
    """,
    "Predict numbers and several labels": """
        PATERegressor PATEMultilabelClassifier NumberJob SeveralLabelsJob
    """,
    "Plan beforehand": """
        plan Plan quote Quote choose Recipe PublicFacts expected Expectation chosen_method kind_of
        fitted_representation RecordsPlan Round
    """,
    "Teachers and votes": """
        TeacherEnsemble TorchTeacherEnsemble HeadTeacherEnsemble CallableTeachers CoordinatedVoter ShardEnsemble
        Votes Voter make_ensemble make_teacher named_teachers
    """,
    "Record voters": """
        RecordVoters SoftSpace HardSpace SignedSpace load_space BallotSum BallotFacts count_right RightCounts
        RightFacts
    """,
    "Representations of rows": """
        Representation TableMap TextMap Pixels Scattering SelfSupervised Augmentation FromModule FromTransformer
        PublicPCA KernelPCA RandomFourier PublicScale AboveLeast UnitRows GroupedRows PublicNeighbours Chain
        chain Combined combine RowMemory cached load
    """,
    "Students, heads and model files": """
        make_student named_students default_student fit_student ImageStudent VoteSpreading Head LinearHead
        LikelihoodHead LeastSquaresHead LabelPropagationHead SelfTrainedHead DescentHead ForestHead
        residual_step load_head MappedLinear RecordModel read_model ModelFile Manifest InputSpec
        check_model_path write_model write_page
    """,
    "Mechanisms and noise": """
        GNMax ConfidentGNMax LNMax NoisyHistogram NoisyBallots VoteCap VoteCapSession GaussianSum SharedGaussian
        SharedGNMax make_mechanism named_mechanisms Draw ANSWERED REFUSED NOT_ASKED NoiseSource WordSource
        noisy_argmax rounded_counts real_argmax real_at_least discrete_gaussian discrete_laplace uniform_below
    """,
    "Budgets and accounting": """
        Budget account PrivacyReport Sensitive calibrate Accountant Charge Guarantee GDPFilter RenyiFilter
        from_dp_event select_best gdp_from_budget gdp_to_delta gdp_to_epsilon pure_to_gdp rdp_to_epsilon
        dpsgd_epsilons DEFAULT_ORDERS rho_star threshold_rho_star vote_cap_rho_star exact_divergences
        ExactDivergences exact_rdp per_teacher_rdp pld_epsilon per_teacher_pld_epsilon composed_pld PldEpsilon
        log_probs upper_bound GaussianNoise LaplaceNoise ThresholdTest
    """,
    "Release labels": """
        release_labels LabelRelease ReleasedLabels Decisions open_session LabelSession open_vote_cap VoteCapRun
        release_ballots BallotRelease open_ballot_session BallotSession RecordLabels ModelLabels ReleaseTerms
    """,
    "Ledger": """
        Ledger Remaining Answer KINDS verify_ledger Verification FileCheck
    """,
    "Statements and reports": """
        PrivacyStatement render_statement render_markdown write_report render_report write_sensitive_report
        render_sensitive_report Display accuracy_against_epsilon accuracy_bars answers_per_class audit_picture
        bounds_picture comparison_curves cost_curves ensemble_curve margin_histogram teacher_accuracies
        figure_to_png figure_to_svg viewer_panels
    """,
    "DP-SGD": """
        DPSGDClassifier DPSGDRegressor SampledGaussian PoissonSGD TruncatedPoissonSGD ShuffledSGD BandedFTRL
        TreeFTRL choose_bands banded_error TrainingMechanism Shape Optimizer DPAdamBC LearningRateSchedule
        ImageAugmentation ExponentialAveraging TailAveraging Device TrainingStep Canaries CanaryScores recipe
        named_recipes choose_recipe DPSGDRecipe RecipePlan TrainingFacts facts_of Engine BookKeepingEngine
        PerRecordEngine make_module named_modules Linear MLP SmallCNN SmallResNet TanhCNN PapernotCNN
        PapernotDeepCNN
    """,
    "Compare and choose": """
        compare ComparisonReport Contestant Setting Tuning default_contestants named NAMES PREDICTS
        own_representation quick_representation run_experiment private_select Candidate Selection
    """,
    "Audit": """
        audit_statement audit_mechanism audit_votes audit_job attack Audit Claim law pair canary game one_run
        independence replay replay_search neighbours
    """,
    "Data": """
        load_dataset list_datasets Dataset load_votes list_votes PublishedVotes read_table Table read_both
        TablePair read_images TableEncoder make_shard_encoder Schema Column PrivateRows partition Partition
        align_columns check_public_rows count_cross_shard_duplicates records_fingerprint recognised_by
    """,
    "Federation": """
        federation.Plan SitesPlan SiteRecords LocalSites Party SecureAggregator Trust init_federation
        make_authority issue Bundle Member Members Site Consent ask AskJob MPyCAggregator comparisons
    """,
    "Extend": """
        Mechanism ExactLaw register registered forget Entry Numbers SampledNeighbours StabilityTest
        distance_to_instability
    """,
    "Errors and warnings": """
        PateError InvalidInputError BudgetExceededError NotWorthwhileError NothingSelectedError
        SensitiveValueError DatasetNotFoundError MissingExtraError LedgerError FederationError RunFolderError
        StudentError PateWarning PrivacyLeakWarning PrivacyParameterWarning CuratorWarning CovariateShiftWarning
        DuplicateRecordsWarning PublicOverlapWarning CheckpointWarning RepeatedFitWarning ResultWarning
        StudentWarning
    """,
}
